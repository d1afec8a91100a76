package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// EnvPrefix starts the name of every variable that sets a key: pull.lease is
// SPOTBATCH_PULL_LEASE.
const EnvPrefix = "SPOTBATCH_"

// testEnvPrefix starts the variables that steer the project's own tests; they
// set no key.
const testEnvPrefix = EnvPrefix + "TEST_"

// Source says where a value came from.
type Source string

// The sources, from weakest to strongest.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"
)

// Flag binds a command-line flag to a key. A flag that was not given on the
// command line sets nothing.
type Flag struct {
	Key  string
	Flag *pflag.Flag
}

// loader gathers what sets each key.
type loader struct {
	v       *viper.Viper
	leaves  []string
	sources map[string]Source
	// where says for each key that was set in which line, variable or flag.
	where    map[string]string
	problems []error
}

// Load reads the YAML file (none when file is empty), then the variables of
// environ ("NAME=value"), then flags, each over the one before and all over
// Default. It returns the configuration and the source of each key. It does
// not validate.
//
// All problems found are joined, one a line. Unknown keys, also as variables,
// are refused with the nearest known one.
func Load(file string, environ []string, flags ...Flag) (Config, map[string]Source, error) {
	l := &loader{v: viper.New(), leaves: Keys(), sources: map[string]Source{}, where: map[string]string{}}
	for _, key := range l.leaves {
		l.sources[key] = FromDefault
	}
	l.applyFile(file)
	l.applyEnv(environ)
	l.applyFlags(flags)
	cfg := Default()
	if len(l.problems) > 0 {
		return cfg, nil, errors.Join(l.problems...)
	}
	if err := l.v.UnmarshalExact(&cfg, viper.DecodeHook(decodeHook())); err != nil {
		return cfg, nil, decodeProblems(err, l.where)
	}
	if cfg.Pull.MaxOutstanding == 0 {
		cfg.Pull.MaxOutstanding = 4 * cfg.Batch.MaxSize
	}
	return cfg, l.sources, nil
}

func (l *loader) set(key string, source Source, where string) {
	l.sources[key], l.where[key] = source, where
}

func (l *loader) applyFile(file string) {
	if file == "" {
		return
	}
	lines, err := readFile(l.v, file)
	if err != nil {
		l.problems = append(l.problems, err)
		return
	}
	for key, line := range lines {
		l.set(key, FromFile, fmt.Sprintf("%s:%d", file, line))
	}
}

// applyEnv sets the keys that environ names.
func (l *loader) applyEnv(environ []string) {
	byEnv := make(map[string]string, len(l.leaves))
	names := make([]string, 0, len(l.leaves))
	for _, key := range l.leaves {
		byEnv[EnvName(key)] = key
		names = append(names, EnvName(key))
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || strings.HasPrefix(name, testEnvPrefix) {
			continue
		}
		key, known := byEnv[name]
		if !known {
			l.problems = append(l.problems, fmt.Errorf("environment: unknown variable %s%s", name, hint(name, names)))
			continue
		}
		l.v.Set(key, value)
		l.set(key, FromEnv, name)
	}
}

func (l *loader) applyFlags(flags []Flag) {
	for _, f := range flags {
		if f.Flag == nil || !f.Flag.Changed {
			continue
		}
		// The text of a list flag is in brackets but is no JSON.
		if list, is := f.Flag.Value.(pflag.SliceValue); is {
			l.v.Set(f.Key, list.GetSlice())
		} else {
			l.v.Set(f.Key, f.Flag.Value.String())
		}
		l.set(f.Key, FromFlag, "--"+f.Flag.Name)
	}
}

// EnvName returns the variable that sets key.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Keys returns every leaf key in the order of the structs.
func Keys() []string {
	var keys []string
	walk(reflect.ValueOf(Config{}), "", func(key string, _ reflect.Value) { keys = append(keys, key) })
	return keys
}

// walk calls visit for each leaf of the struct v.
func walk(v reflect.Value, prefix string, visit func(key string, leaf reflect.Value)) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("mapstructure")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			walk(f, key+".", visit)
		} else {
			visit(key, f)
		}
	}
}

func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
