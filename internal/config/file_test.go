package config

import (
	"testing"
	"time"
)

func TestFilesThatSetNothing(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"comments":      "# nothing\n\n# here\n",
		"marker":        "---\n",
		"empty map":     "{}",
		"null":          "null\n",
		"null section":  "pull:\n  # lease: 30s\nmodel:\n  input:\n    image:\n",
		"empty section": "pull: {}\n",
		"bom":           "\ufeff# a file saved by a Windows editor\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, sources, err := Load(write(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOnly(t, cfg, "project", "")
			for key, source := range sources {
				if source != FromDefault {
					t.Errorf("source of %s is %s", key, source)
				}
			}
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown at the top", "projekt: p", ":1: unknown key projekt; did you mean project?"},
		{"unknown in a section", "batch:\n  max_sise: 3", ":2: unknown key batch.max_sise; did you mean batch.max_size?"},
		{"unknown at depth", "model: {input: {image: {colour: rgb}}}", "unknown key model.input.image.colour; did you mean model.input.image.color?"},
		{"unknown section", "pulls:\n  lease: 30s", "unknown key pulls; did you mean pull?"},
		{"wrong section", "max_wait: 50ms", "unknown key max_wait; did you mean batch.max_wait?"},
		{"capitals", "Project: p", "unknown key Project; did you mean project?"},
		{"dots", "pull.lease: 30s", `unknown key "pull.lease"; write nested keys, not dots`},
		{"merge key", "pull:\n  <<: {lease: 30s}", "unknown key pull.<<"},
		{"duration as number", "pull: {lease: 30}", `pull.lease: "30" is not a duration; write a number with a unit, such as 30s, 500ms or 1h`},
		{"duration as zero", "batch: {max_wait: 0}", `batch.max_wait: "0" is not a duration`},
		{"duration as text", `pull: {lease: "30"}`, `"30" is not a duration`},
		{"duration as list", "pull: {lease: [30s]}", "[30s] is a list; write one value"},
		{"size as fraction", "batch: {max_bytes: 1.5}", `"1.5" is not a size`},
		{"size below zero", "batch: {max_bytes: -5}", `"-5" is not a size`},
		{"number as fraction", "batch: {max_size: 16.5}", `"16.5" is not a whole number`},
		{"number as bool", "batch: {max_size: true}", `"true" is not a whole number`},
		{"number as list", "batch: {max_size: [16]}", "is a list; write one value"},
		{"number too large", "batch: {max_size: 1e300}", `"1e+300" is not a whole number`},
		{"bool as number", "model: {output: {softmax: 1}}", `"1" is neither true nor false`},
		{"text as number", "project: 1234", "1234 is not a text; put it in quotes"},
		{"text as date", "model: {version: 2026-01-01}", "is not a text; put it in quotes"},
		{"text as bool", "project: true", "true is not a text; put it in quotes"},
		{"text as list", "project: [p]", "is a list; write one value"},
		{"text in numbers", "model: {input: {image: {mean: [0.5, x]}}}", `model.input.image.mean[1]: "x" is not a number`},
		{"infinity in numbers", "model: {input: {image: {std: [.inf]}}}", "is not a number"},
		{"number in texts", "model: {output: {labels: [zero, 1]}}", "model.output.labels[1]: 1 is not a text; put it in quotes"},
		{"list as text", "model: {command: python3 run.py}", `model.command takes a list, such as ["a", "b"]`},
		{"list of lists", "model: {command: [[a]]}", "model.command[0]"},
		{"list of maps", "model: {command: [{a: b}]}", "model.command[0]"},
		{"map for a list", "model: {command: {a: b}}", "model.command takes a value, not a map of keys"},
		{"map for a value", "project:\n  name: p", "project takes a value, not a map of keys"},
		{"value for a section", "pull: 30s", "pull is a section; write its keys below it"},
		{"list for a section", "pull: [lease]", "pull is a section; write its keys below it"},
		{"null value", "project: p\npull:\n  lease:\n", ":3: pull.lease has no value; write one, or remove the key"},
		{"null by tilde", "pull: {lease: ~}", "pull.lease has no value"},
		{"twice", "project: a\nproject: b", ":2: project is set twice, first in line 1"},
		{"section twice", "pull: {lease: 30s}\nbatch: {}\npull: {}", ":3: pull is set twice, first in line 1"},
		{"two documents", "project: a\n---\nproject: b", ":2: second YAML document"},
		{"list", "- project", "a configuration is a map of keys"},
		{"text", "project", "a configuration is a map of keys"},
		{"tabs", "pull:\n\tlease: 30s", "indent with spaces, YAML takes no tab characters"},
		{"not YAML", "project: [", "read config"},
		{"not YAML in the second document", "project: a\n---\n[", "read config"},
		{"binary", "\x00\x01\x02", "read config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, sources, err := Load(write(t, test.text), nil)
			wantError(t, err, test.want)
			if sources != nil {
				t.Error("sources are returned with an error")
			}
		})
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	cfg, _, err := Load(write(t, "infer: {timeout: &long 9m}\ncommit: {timeout: *long}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Commit.Timeout != 9*time.Minute {
		t.Errorf("commit.timeout is %s, want 9m", cfg.Commit.Timeout)
	}
	_, _, err = Load(write(t, "pull: &p {leese: 30s}\nbatch: *p\n"), nil)
	wantError(t, err, "unknown key pull.leese", "unknown key batch.leese")
}

func TestVariableUnderNullSection(t *testing.T) {
	cfg, _, err := Load(write(t, "pull:\nbatch: {}\n"), []string{"SPOTBATCH_PULL_LEASE=45s", "SPOTBATCH_BATCH_MAX_SIZE=3"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Pull.Lease != 45*time.Second || cfg.Batch.MaxSize != 3 {
		t.Errorf("lease %s, max_size %d; want 45s, 3", cfg.Pull.Lease, cfg.Batch.MaxSize)
	}
}

func TestWholeNumbersMayBeWrittenAsFloats(t *testing.T) {
	cfg, _, err := Load(write(t, "batch: {max_bytes: 2.68435456e+08, max_size: 16.0}\nmodel: {input: {image: {max_pixels: 5e+07}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Batch.MaxBytes != 256<<20 || cfg.Batch.MaxSize != 16 || cfg.Model.Input.Image.MaxPixels != 50_000_000 {
		t.Errorf("max_bytes %s, max_size %d, max_pixels %d; want 256MiB, 16, 50000000", cfg.Batch.MaxBytes, cfg.Batch.MaxSize, cfg.Model.Input.Image.MaxPixels)
	}
}
