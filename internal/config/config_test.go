package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// write puts text into a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "spotbatch.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// wantError checks that err has exactly the given problems, in any order, each
// by a part of its line.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", parts)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(parts) {
		t.Errorf("%d problems, want %d:\n%v", len(lines), len(parts), err)
	}
	for _, part := range parts {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, part) }) {
			t.Errorf("no problem with %q in:\n%v", part, err)
		}
	}
}

// sample returns a value for a leaf that differs from its default, as text for
// a variable and as what it must be read as.
func sample(t *testing.T, key string, leaf reflect.Value) (text string, want any) {
	t.Helper()
	switch leaf.Interface().(type) {
	case time.Duration:
		return "7m3s", 7*time.Minute + 3*time.Second
	case Bytes:
		return "77MiB", Bytes(77 << 20)
	case string:
		return "text of " + key, "text of " + key
	case int:
		return "77", 77
	case bool:
		return "true", true
	case []string:
		return `["a,b","c"]`, []string{"a,b", "c"}
	case []float64:
		return "[0.25,2]", []float64{0.25, 2}
	}
	t.Fatalf("%s has the type %s, which no loader test covers", key, leaf.Type())
	return "", nil
}

func TestEachKeyCanBeSetByVariableAlone(t *testing.T) {
	walk(reflect.ValueOf(Default()), "", func(key string, leaf reflect.Value) {
		t.Run(key, func(t *testing.T) {
			text, want := sample(t, key, leaf)
			cfg, sources, err := Load("", []string{EnvName(key) + "=" + text})
			if err != nil {
				t.Fatal(err)
			}
			checkOnly(t, cfg, key, want)
			for k, source := range sources {
				if (k == key) != (source == FromEnv) {
					t.Errorf("source of %s is %s", k, source)
				}
			}
		})
	})
}

func TestEachKeyCanBeSetByFileAlone(t *testing.T) {
	walk(reflect.ValueOf(Default()), "", func(key string, leaf reflect.Value) {
		t.Run(key, func(t *testing.T) {
			text, want := sample(t, key, leaf)
			yaml, depth := "", 0
			for name := range strings.SplitSeq(key, ".") {
				yaml += fmt.Sprintf("\n%s%s:", strings.Repeat("  ", depth), name)
				depth++
			}
			cfg, sources, err := Load(write(t, yaml+" "+text), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOnly(t, cfg, key, want)
			if sources[key] != FromFile {
				t.Errorf("source is %s, want file", sources[key])
			}
		})
	})
}

// checkOnly checks that key has the value want, and all others their defaults.
func checkOnly(t *testing.T, cfg Config, key string, want any) {
	t.Helper()
	defaults := map[string]any{}
	walk(reflect.ValueOf(Default()), "", func(k string, leaf reflect.Value) { defaults[k] = leaf.Interface() })
	defaults["pull.max_outstanding"] = 4 * cfg.Batch.MaxSize
	defaults[key] = want
	walk(reflect.ValueOf(cfg), "", func(k string, leaf reflect.Value) {
		if !reflect.DeepEqual(leaf.Interface(), defaults[k]) {
			t.Errorf("%s is %v, want %v", k, leaf.Interface(), defaults[k])
		}
	})
}

func TestVariableNamesDoNotCollide(t *testing.T) {
	byName := map[string]string{}
	for _, key := range Keys() {
		name := EnvName(key)
		if other, taken := byName[name]; taken {
			t.Errorf("%s and %s share the variable %s", key, other, name)
		}
		if strings.HasPrefix(name, testEnvPrefix) {
			t.Errorf("%s has the variable %s, which is ignored", key, name)
		}
		byName[name] = key
	}
	if len(byName) < 40 {
		t.Errorf("only %d keys found", len(byName))
	}
}

func TestKeysAreWrittenInSnakeCase(t *testing.T) {
	for _, key := range slices.Concat(Keys(), sections()) {
		if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_.") != "" || strings.HasSuffix(key, ".") {
			t.Errorf("key %q: a field has no mapstructure tag, or an odd one", key)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, test := range []struct {
		text string
		want Bytes
		back string
	}{
		{"0", 0, "0"},
		{"1000", 1000, "1000"},
		{"12B", 12, "12"},
		{"2KB", 2000, "2000"},
		{"2KiB", 2048, "2KiB"},
		{"256MiB", 256 << 20, "256MiB"},
		{" 3 GiB ", 3 << 30, "3GiB"},
		{"5MB", 5_000_000, "5000000"},
		{"1GB", 1_000_000_000, "1000000000"},
		{"1024MiB", 1 << 30, "1GiB"},
	} {
		got, err := ParseBytes(test.text)
		if err != nil || got != test.want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", test.text, got, err, test.want)
		}
		if got.String() != test.back {
			t.Errorf("%q is written as %s, want %s", test.text, got, test.back)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "-1MiB", "1.5GiB", "1e6", "10mib", "10 XB", "9999999999GiB", "0x10", "1_000"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
}

func TestWriteShowsEachKeyWithSourceAndVariable(t *testing.T) {
	cfg, sources, err := Load("", []string{"SPOTBATCH_PULL_LEASE=45s"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Write(&out, cfg, sources); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(Keys()) {
		t.Errorf("%d lines for %d keys", len(lines), len(Keys()))
	}
	for _, want := range []string{
		"pull.lease: 45s # env; SPOTBATCH_PULL_LEASE",
		"batch.max_bytes: 32MiB # default; SPOTBATCH_BATCH_MAX_BYTES",
		`log.level: "info" # default; SPOTBATCH_LOG_LEVEL`,
		"model.command: [] # default; SPOTBATCH_MODEL_COMMAND",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("no line %q in:\n%s", want, &out)
		}
	}
}
