package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestPrecedence(t *testing.T) {
	file := write(t, "batch:\n  max_size: 2\n  max_wait: 2s\n  max_bytes: 2MiB\nproject: from-file\n")
	environ := []string{"SPOTBATCH_BATCH_MAX_SIZE=3", "SPOTBATCH_BATCH_MAX_WAIT=3s", "PATH=/bin"}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Int("batch-max-size", 99, "")
	flags.String("project", "not-given", "")
	flags.Duration("drain-timeout", 0, "")
	if err := flags.Parse([]string{"--batch-max-size=4", "--drain-timeout", "9s"}); err != nil {
		t.Fatal(err)
	}
	cfg, sources, err := Load(file, environ,
		Flag{"batch.max_size", flags.Lookup("batch-max-size")},
		Flag{"project", flags.Lookup("project")},
		Flag{"drain.timeout", flags.Lookup("drain-timeout")},
		Flag{"log.level", flags.Lookup("no-such-flag")})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Project = "from-file"
	want.Batch = Batch{MaxSize: 4, MaxWait: 3 * time.Second, MaxBytes: 2 << 20}
	want.Pull.MaxOutstanding = 16 // four times the size that won
	want.Drain.Timeout = 9 * time.Second
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	for key, want := range map[string]Source{
		"batch.max_size": FromFlag, "batch.max_wait": FromEnv, "batch.max_bytes": FromFile, "project": FromFile,
		"drain.timeout": FromFlag, "pull.lease": FromDefault, "log.level": FromDefault, "pull.max_outstanding": FromDefault,
	} {
		if sources[key] != want {
			t.Errorf("source of %s is %q, want %q", key, sources[key], want)
		}
	}
}

func TestVariableReplacesWholeListOfFile(t *testing.T) {
	file := write(t, `model: {command: ["python3", "-u", "long.py"], input: {image: {mean: [1, 2, 3]}}}`)
	cfg, _, err := Load(file, []string{"SPOTBATCH_MODEL_COMMAND=./run", "SPOTBATCH_MODEL_INPUT_IMAGE_MEAN="})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"./run"}, cfg.Model.Command); diff != "" {
		t.Error(diff)
	}
	if len(cfg.Model.Input.Image.Mean) != 0 {
		t.Errorf("mean is %v, want none", cfg.Model.Input.Image.Mean)
	}
}

func TestLists(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"json", `["python3", "-c", "print(1, 2)"]`, []string{"python3", "-c", "print(1, 2)"}},
		{"commas", "python3, run.py ,-v", []string{"python3", "run.py", "-v"}},
		{"one", "./run", []string{"./run"}},
		{"empty", "", []string{}},
		{"empty json", " [] ", []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg, _, err := Load("", []string{"SPOTBATCH_MODEL_COMMAND=" + test.text})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, cfg.Model.Command); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("numbers", func(t *testing.T) {
		cfg, _, err := Load(write(t, "model: {input: {image: {mean: 0.5}}}"), []string{"SPOTBATCH_MODEL_INPUT_IMAGE_STD=0.25, 1,2e-1"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{0.5}, cfg.Model.Input.Image.Mean); diff != "" {
			t.Errorf("mean (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]float64{0.25, 1, 0.2}, cfg.Model.Input.Image.Std); diff != "" {
			t.Errorf("std (-want +got):\n%s", diff)
		}
	})
	t.Run("flag", func(t *testing.T) {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.StringArray("command", nil, "")
		if err := flags.Parse([]string{"--command", "sh", "--command", "-c", "--command", "a, b"}); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := Load("", nil, Flag{"model.command", flags.Lookup("command")})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"sh", "-c", "a, b"}, cfg.Model.Command); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
	})
}

func TestVariablesThatAreRefused(t *testing.T) {
	for _, test := range []struct{ name, entry, want string }{
		{"unknown", "SPOTBATCH_PULL_LEESE=30s", "environment: unknown variable SPOTBATCH_PULL_LEESE; did you mean SPOTBATCH_PULL_LEASE?"},
		{"unknown top", "SPOTBATCH_PROJET=x", "did you mean SPOTBATCH_PROJECT?"},
		{"nothing near", "SPOTBATCH_SERVICE_PORT_GRPC_WEB=x", "`worker check-config` lists all keys"},
		{"section", "SPOTBATCH_PULL=x", "unknown variable SPOTBATCH_PULL"},
		{"small letters", "SPOTBATCH_pull_lease=30s", "did you mean SPOTBATCH_PULL_LEASE?"},
		{"no unit", "SPOTBATCH_PULL_LEASE=30", `SPOTBATCH_PULL_LEASE: pull.lease: "30" is not a duration; write a number with a unit`},
		{"empty", "SPOTBATCH_PULL_LEASE=", `"" is not a duration`},
		{"zero", "SPOTBATCH_BATCH_MAX_WAIT=0", `"0" is not a duration`},
		{"signed zero", "SPOTBATCH_BATCH_MAX_WAIT=-0", `"-0" is not a duration`},
		{"size", "SPOTBATCH_BATCH_MAX_BYTES=1.5MiB", `"1.5MiB" is not a size`},
		{"number", "SPOTBATCH_BATCH_MAX_SIZE=0x10", `"0x10" is not a whole number`},
		{"fraction", "SPOTBATCH_BATCH_MAX_SIZE=1.5", `"1.5" is not a whole number`},
		{"too big", "SPOTBATCH_BATCH_MAX_SIZE=99999999999999999999", "is not a whole number"},
		{"bool", "SPOTBATCH_MODEL_OUTPUT_SOFTMAX=yes", `"yes" is neither true nor false`},
		{"nan", "SPOTBATCH_MODEL_INPUT_IMAGE_MEAN=0.5,NaN", `model.input.image.mean[1]: "NaN" is not a number`},
		{"broken json", `SPOTBATCH_MODEL_COMMAND=["a"`, "starts as a JSON array but is none"},
		{"number in json", `SPOTBATCH_MODEL_COMMAND=["a", 1]`, "model.command[1]: 1 is not a text; put it in quotes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Load("", []string{test.entry})
			wantError(t, err, test.want)
		})
	}
}

func TestVariablesThatAreIgnored(t *testing.T) {
	cfg, _, err := Load("", []string{
		"SPOTBATCH_TEST_EMULATORS=official", "SPOTBATCHX=1", "XSPOTBATCH_PULL_LEASE=1", "SPOTBATCH=1", "spotbatch_pull_lease=1", "broken",
	})
	if err != nil {
		t.Fatal(err)
	}
	checkOnly(t, cfg, "project", "")
}

func TestAllProblemsAreShownAtOnce(t *testing.T) {
	_, _, err := Load(write(t, "pull:\n  leese: 30s\nbatchs: {}\n"), []string{"SPOTBATCH_NOPE=1", "SPOTBATCH_PROJECT=p"})
	wantError(t, err, ":2: unknown key pull.leese; did you mean pull.lease?", ":3: unknown key batchs; did you mean batch?", "SPOTBATCH_NOPE")

	_, _, err = Load(write(t, "pull:\n  lease: 30\n"), []string{"SPOTBATCH_BATCH_MAX_SIZE=many", "SPOTBATCH_INFER_TIMEOUT=5"})
	wantError(t, err, "spotbatch.yaml:2: pull.lease:", "SPOTBATCH_BATCH_MAX_SIZE: batch.max_size:", "SPOTBATCH_INFER_TIMEOUT: infer.timeout:")
}

func TestFlagsThatAreRefused(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("lease", "", "")
	if err := flags.Parse([]string{"--lease", "30"}); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load("", nil, Flag{"pull.lease", flags.Lookup("lease")})
	wantError(t, err, `--lease: pull.lease: "30" is not a duration`)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Load(filepath.Join(dir, "missing.yaml"), nil)
	wantError(t, err, "no such file or directory; give an existing file with --config")
	_, _, err = Load(dir, nil)
	wantError(t, err, "is a directory; give a YAML file with --config")
	if os.Geteuid() != 0 {
		file := write(t, "project: p")
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		_, _, err = Load(file, nil)
		wantError(t, err, "permission denied")
	}
}

func TestHintsStayQuietWhenNothingIsNear(t *testing.T) {
	if got := hint("zzzzzz", Keys()); strings.Contains(got, "did you mean") {
		t.Errorf("hint for zzzzzz: %s", got)
	}
}
