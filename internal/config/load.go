package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
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

// Load reads the YAML file (none when file is empty), then the variables of
// environ ("NAME=value"), then flags, each over the one before and all over
// Default. It returns the configuration and the source of each key. It does
// not validate.
//
// All problems found are joined, one a line. Unknown keys, also as variables,
// are refused with the nearest known one.
func Load(file string, environ []string, flags ...Flag) (Config, map[string]Source, error) {
	cfg := Default()
	leaves := Keys()
	sources := make(map[string]Source, len(leaves))
	v := viper.New()
	for _, key := range leaves {
		sources[key] = FromDefault
	}

	var problems []error
	if file != "" {
		keys, err := readFile(v, file)
		if err != nil {
			return cfg, nil, err
		}
		for _, key := range keys {
			if !slices.Contains(leaves, key) {
				problems = append(problems, fmt.Errorf("%s: unknown key %s%s", file, key, hint(key, leaves)))
				continue
			}
			sources[key] = FromFile
		}
	}
	problems = append(problems, applyEnv(v, environ, leaves, sources)...)
	for _, f := range flags {
		if f.Flag != nil && f.Flag.Changed {
			v.Set(f.Key, f.Flag.Value.String())
			sources[f.Key] = FromFlag
		}
	}
	if len(problems) > 0 {
		return cfg, nil, errors.Join(problems...)
	}
	if err := v.UnmarshalExact(&cfg, viper.DecodeHook(decodeHook())); err != nil {
		return cfg, nil, decodeProblems(err, sources)
	}
	if cfg.Pull.MaxOutstanding == 0 {
		cfg.Pull.MaxOutstanding = 4 * cfg.Batch.MaxSize
	}
	return cfg, sources, nil
}

// readFile reads a YAML file into v and returns the keys that it sets.
func readFile(v *viper.Viper, file string) ([]string, error) {
	if info, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("read config: %w; give an existing file with --config", err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("read config: %s is a directory; give a YAML file with --config", file)
	}
	v.SetConfigFile(file)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, oneLine(err))
	}
	return v.AllKeys(), nil
}

// applyEnv sets the keys that environ names.
func applyEnv(v *viper.Viper, environ, leaves []string, sources map[string]Source) []error {
	byEnv := make(map[string]string, len(leaves))
	names := make([]string, 0, len(leaves))
	for _, key := range leaves {
		byEnv[EnvName(key)] = key
		names = append(names, EnvName(key))
	}
	var problems []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || strings.HasPrefix(name, testEnvPrefix) {
			continue
		}
		key, known := byEnv[name]
		if !known {
			problems = append(problems, fmt.Errorf("environment: unknown variable %s%s", name, hint(name, names)))
			continue
		}
		v.Set(key, value)
		sources[key] = FromEnv
	}
	return problems
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

// hint returns "; did you mean X?" for the nearest of names, or nothing when
// none is near.
func hint(name string, names []string) string {
	best, bestDistance := "", len(name)/2+1
	for _, candidate := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return "; `check-config` lists all keys"
	}
	return "; did you mean " + best + "?"
}

// distance is the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
