package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Files that users copy and read: each must load, and each must be complete.

func TestConfigFilesLoad(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("config files: %v, %v; want at least three", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, _, err := Load(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := cfg.ValidatePublisher(); err != nil {
				t.Errorf("publisher: %v", err)
			}
			if filepath.Base(file) == "publisher.yaml" {
				return
			}
			if err := cfg.ValidateWorker(); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
}

func TestExamplesNameEachKey(t *testing.T) {
	keys := func(name string) []string {
		_, sources, err := Load("../../configs/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(Keys(), func(key string) bool { return sources[key] != FromFile })
	}
	workers, publishers := keys("worker.yaml"), keys("publisher.yaml")
	for _, key := range Keys() {
		isPublishers := strings.HasPrefix(key, "publish.")
		if got := slices.Contains(workers, key); got == isPublishers {
			t.Errorf("configs/worker.yaml sets %s: %t, want %t", key, got, !isPublishers)
		}
		if isPublishers && !slices.Contains(publishers, key) {
			t.Errorf("configs/publisher.yaml does not set %s", key)
		}
	}
}

func TestEachLineOfTheWorkerExampleIsExplained(t *testing.T) {
	data, err := os.ReadFile("../../configs/worker.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "#"); n < len(Keys()) {
		t.Errorf("%d comment lines for %d keys", n, len(Keys()))
	}
}

// docs/configuration.md has a row | `key` | `default` | meaning | for each key.
func TestDocumentationIsComplete(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		key := strings.Trim(cells[0], " `")
		if _, twice := rows[key]; twice {
			t.Errorf("%s has two rows", key)
		}
		rows[key] = cells[1:]
	}
	walk(reflect.ValueOf(Default()), "", func(key string, leaf reflect.Value) {
		row, found := rows[key]
		delete(rows, key)
		if !found {
			t.Errorf("%s has no row; add one with the default `%s`", key, show(leaf))
			return
		}
		if got, want := strings.TrimSpace(row[0]), "`"+show(leaf)+"`"; got != want && (got != "" || !leaf.IsZero()) {
			t.Errorf("%s has the documented default %s, want %s", key, got, want)
		}
		if len(strings.TrimSpace(row[1])) < 10 {
			t.Errorf("%s is not explained", key)
		}
	})
	for key := range rows {
		t.Errorf("%s is documented and does not exist", key)
	}
}
