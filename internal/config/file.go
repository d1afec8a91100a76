package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// fileKeys is what a configuration file sets: each leaf key with its line.
type fileKeys struct {
	file     string
	lines    map[string]int
	problems []error

	leaves, sections, lists []string
}

// readFile reads a YAML file into v and returns the lines of the keys that it
// sets.
//
// The document is walked before viper sees it: viper folds capitals, accepts
// dots inside keys and drops nulls and second documents without a word.
func readFile(v *viper.Viper, file string) (map[string]int, error) {
	data, err := readAll(file)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, notYAML(file, data, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, notYAML(file, data, err)
		}
		return nil, fmt.Errorf("%s:%d: second YAML document; a configuration is one document, remove the line ---", file, second.Line)
	}
	keys := &fileKeys{file: file, lines: map[string]int{}, leaves: Keys(), sections: sections(), lists: lists()}
	if len(document.Content) > 0 {
		keys.document(document.Content[0])
	}
	if len(keys.problems) > 0 {
		return nil, errors.Join(keys.problems...)
	}
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(data)); err != nil {
		return nil, notYAML(file, data, err)
	}
	return keys.lines, nil
}

func readAll(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read config: %w; give an existing file with --config", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("read config: %s is a directory; give a YAML file with --config", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return data, nil
}

func notYAML(file string, data []byte, err error) error {
	advice := ""
	if bytes.ContainsRune(data, '\t') {
		advice = "; indent with spaces, YAML takes no tab characters"
	}
	return fmt.Errorf("read config %s: %w%s", file, oneLine(err), advice)
}

func (f *fileKeys) problem(node *yaml.Node, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.file, node.Line, fmt.Sprintf(format, args...)))
}

func (f *fileKeys) document(root *yaml.Node) {
	switch {
	case root.Kind == yaml.MappingNode:
		f.mapping(root, "")
	case !isNull(root):
		f.problem(root, "a configuration is a map of keys, such as project: demo")
	}
}

func (f *fileKeys) mapping(node *yaml.Node, prefix string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		key := prefix + name.Value
		if line, twice := f.lines[key]; twice {
			f.problem(name, "%s is set twice, first in line %d", key, line)
			continue
		}
		f.lines[key] = name.Line
		f.entry(name, value, key)
	}
	// Only leaves are reported; sections are noted here to find them twice.
	if prefix == "" {
		for _, section := range f.sections {
			delete(f.lines, section)
		}
	}
}

func (f *fileKeys) entry(name, value *yaml.Node, key string) {
	switch {
	case strings.Contains(name.Value, "."):
		f.problem(name, "unknown key %q; write nested keys, not dots", key)
	case slices.Contains(f.sections, key):
		switch {
		case value.Kind == yaml.MappingNode:
			f.mapping(value, key+".")
		case !isNull(value): // a section whose keys are all commented out is null
			f.problem(name, "%s is a section; write its keys below it", key)
		}
	case !slices.Contains(f.leaves, key):
		f.problem(name, "unknown key %s%s", key, hint(key, slices.Concat(f.leaves, f.sections)))
	case isNull(value):
		f.problem(name, "%s has no value; write one, or remove the key", key)
	case value.Kind == yaml.MappingNode:
		f.problem(name, "%s takes a value, not a map of keys", key)
	case slices.Contains(f.lists, key) && value.Tag == "!!str":
		// In a variable "a,b" is a list; in YAML "python3 run.py" would
		// quietly be a list of one word.
		f.problem(name, `%s takes a list, such as ["a", "b"]`, key)
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// lists returns the leaf keys that hold lists.
func lists() []string {
	var all []string
	walk(reflect.ValueOf(Config{}), "", func(key string, leaf reflect.Value) {
		if leaf.Kind() == reflect.Slice {
			all = append(all, key)
		}
	})
	return all
}

// sections returns the keys that hold other keys.
func sections() []string {
	var all []string
	var visit func(t reflect.Type, prefix string)
	visit = func(t reflect.Type, prefix string) {
		for field := range t.Fields() {
			if field.Type.Kind() == reflect.Struct {
				key := prefix + field.Tag.Get("mapstructure")
				all = append(all, key)
				visit(field.Type, key+".")
			}
		}
	}
	visit(reflect.TypeFor[Config](), "")
	return all
}
