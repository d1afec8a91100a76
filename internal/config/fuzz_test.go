package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file or a variable holds, it is read or refused; and what is shown
// by check-config is there in full.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("config files: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "SPOTBATCH_PULL_LEASE=30s")
	}
	f.Add("pull: &a {lease: 1s}\nbatch: *a\n", "SPOTBATCH_MODEL_COMMAND=[\"a\"]")
	f.Add("model: &m\n  input: *m\n", "SPOTBATCH_MODEL_INPUT_IMAGE_MEAN=1,,2")
	f.Add("? [a]\n: b\n", "SPOTBATCH_BATCH_MAX_BYTES=1KiB")
	f.Add("project: !!binary YQ==\n", "")
	f.Fuzz(func(t *testing.T, text, variable string) {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, sources, err := Load(file, []string{variable})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		if len(sources) != len(Keys()) {
			t.Errorf("%d sources for %d keys", len(sources), len(Keys()))
		}
		_ = cfg.ValidateWorker() // must not panic
	})
}
