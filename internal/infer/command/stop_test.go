package command_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func TestLoadInfo(t *testing.T) {
	script := filepath.Join(t.TempDir(), "model.txt")
	if err := os.WriteFile(script, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := `{"ready":true,"protocol":1}`
	load := func(cfg config.Model) worker.Info {
		r, _ := newRunner(t, cfg, 2)
		info, err := r.Load(t.Context())
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		return info
	}

	if got, want := load(childConfig("serve")), (worker.Info{ModelVersion: "child-1", MaxBatch: 8}); got != want {
		t.Errorf("info = %+v; want %+v", got, want)
	}
	cfg := childConfig("serve")
	cfg.Version, cfg.MaxBatch = "mine", 5
	if got, want := load(cfg), (worker.Info{ModelVersion: "mine", MaxBatch: 5}); got != want {
		t.Errorf("info = %+v; want %+v", got, want)
	}
	cfg.MaxBatch = 50
	if got := load(cfg).MaxBatch; got != 8 {
		t.Errorf("MaxBatch = %d; want 8", got)
	}

	first := load(childConfig("serve", plain, script))
	if again := load(childConfig("serve", plain, script)); again != first || !strings.HasPrefix(first.ModelVersion, "sha256-") {
		t.Errorf("info = %+v, then %+v; want the same hash", first, again)
	}
	if other := load(childConfig("serve", plain, script, "x")); other == first {
		t.Error("another argument gives the same version")
	}
	if err := os.WriteFile(script, []byte("Weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := load(childConfig("serve", plain, script)); other == first {
		t.Error("other content of a named file gives the same version")
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	noFormat := filepath.Join(dir, "noformat")
	if err := os.WriteFile(noFormat, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := func(command ...string) config.Model { return config.Model{Command: command, StartTimeout: time.Minute} }
	slow := childConfig("slow")
	slow.StartTimeout = 100 * time.Millisecond
	inDir := cfg("./plain")
	inDir.Dir = dir
	noDir := childConfig("serve")
	noDir.Dir = filepath.Join(dir, "none")

	for _, tc := range []struct {
		name     string
		cfg      config.Model
		text     string
		unusable bool
	}{
		{"no command", cfg(), "model.command is empty", true},
		{"not on the path", cfg("no-such-program"), `"no-such-program" is not on the PATH`, true},
		{"no such file", cfg("/no/such/program"), `"/no/such/program" does not exist`, true},
		{"not executable", cfg(plain), "is not an executable file", true},
		{"not executable, by dir", inDir, "is not an executable file", true},
		{"a directory", cfg(dir), "is not an executable file", true},
		{"no program", cfg(noFormat), "is no program for this machine", true},
		{"no dir", noDir, "is not a directory", true},
		{"other protocol", childConfig("say", `{"ready":true,"protocol":2}`), "it speaks protocol 2, this worker speaks 1", true},
		{"no protocol", childConfig("say", `{"ready":true}`), "it speaks protocol 0", true},
		{"not ready", childConfig("say", `{"ready":false,"protocol":1}`), `must say "ready":true`, true},
		{"stray print", childConfig("say", "Downloading weights"), `it is "Downloading weights"`, true},
		{"line after ready", childConfig("say", readyLine, "hello"), `wrote "hello" after`, true},
		{"long version", childConfig("say", `{"ready":true,"protocol":1,"model_version":"`+strings.Repeat("v", 129)+`"}`), "more than 128 characters", true},
		{"dies", childConfig("die", "7", "ImportError: torch"), "exit status 7: ImportError: torch", false},
		{"too slow", slow, "model.start_timeout (100ms)", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := newRunner(t, tc.cfg, 1)
			_, err := r.Load(t.Context())
			wantErr(t, err, "none", tc.text)
			if got := errors.Is(err, worker.ErrPermanent); got != tc.unusable {
				t.Errorf("errors.Is(%q, ErrPermanent) = %t; want %t", err, got, tc.unusable)
			}
		})
	}
}

// Field case 4.10: a child that finds no device says so, and the worker exits
// with a code of its own.
func TestLoadWithoutADevice(t *testing.T) {
	for _, class := range []worker.Class{worker.ClassDevice, worker.ClassTransient} {
		r, _ := newRunner(t, childConfig("say", `{"error":{"class":"`+string(class)+`","message":"no CUDA device"}}`), 1)
		_, err := r.Load(t.Context())
		if worker.ClassOf(err, "") != class || !strings.Contains(err.Error(), "no CUDA device") || errors.Is(err, worker.ErrPermanent) {
			t.Errorf("Load: got %v, want class %s", err, class)
		}
	}
}

func TestLoadAgainAfterAFailure(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	cfg := childConfig("serve")
	cfg.Command[0] = program
	r, _ := newRunner(t, cfg, 1)
	if _, err := r.Load(t.Context()); !errors.Is(err, worker.ErrPermanent) {
		t.Fatalf("Load = %v; want ErrPermanent", err)
	}
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatalf("second Load: %v", err)
	}
	if got := run(t, r, `1`); got[0] != "0 1" {
		t.Errorf("outputs = %q", got)
	}
	if _, err := r.Load(t.Context()); err == nil {
		t.Error("Load of a loaded runner succeeded")
	}
}

func TestLoadIsInterruptedAtOnce(t *testing.T) {
	for name, interrupt := range map[string]func(context.CancelFunc, *command.Runner){
		"by its context": func(cancel context.CancelFunc, _ *command.Runner) { cancel() },
		"by Close":       func(_ context.CancelFunc, r *command.Runner) { _ = r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			r, _ := newRunner(t, childConfig("family", pidFile), 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := r.Load(ctx)
				done <- err
			}()
			grandchild := pidFrom(t, pidFile)
			start := time.Now()
			interrupt(cancel, r)
			if err := <-done; err == nil {
				t.Error("Load succeeded")
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("Load returned %s after it was interrupted", d)
			}
			gone(t, grandchild)
		})
	}
}

func TestCloseDuringRun(t *testing.T) {
	r := serving(t)
	done := make(chan error, 1)
	ins := batch(t, r, `{"do":"print","text":"   "}`, `{"do":"hang"}`)
	go func() {
		_, err := r.Run(t.Context(), ins)
		done <- err
	}()
	// The child has the batch once another Run finds no child.
	for busy := false; !busy; {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := r.Run(ctx, batch(t, r, `1`))
		busy = err != nil && strings.Contains(err.Error(), "wait")
		cancel()
	}
	start := time.Now()
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	if err := <-done; err == nil {
		t.Error("Run succeeded")
	} else {
		wantErr(t, err, worker.ClassTransient, "closed")
	}
	if d := time.Since(start); d > 500*time.Millisecond {
		t.Errorf("Run returned %s after Close began", d)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := r.Run(t.Context(), ins); err == nil {
		t.Error("Run after Close succeeded")
	}
}

func TestCloseEscalates(t *testing.T) {
	r, _ := loaded(t, childConfig("stubborn"), 2)
	start := time.Now()
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if d := time.Since(start); d < 1900*time.Millisecond || d > 3*time.Second {
		t.Errorf("Close took %s; want 2s: end of input, SIGTERM after 1s, SIGKILL after 2s", d)
	}
}

func TestCloseIsQuickWithAGoodChild(t *testing.T) {
	r, _ := loaded(t, childConfig("serve"), 2)
	start := time.Now()
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if d := time.Since(start); d > 900*time.Millisecond {
		t.Errorf("Close took %s; a child that ends with its input needs no signal", d)
	}
}

// A worker that is killed runs no code any more; the kernel must end the
// runner, which here heeds neither the end of its input nor SIGTERM.
func TestKilledWorkerLeavesNoRunner(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	w := exec.CommandContext(t.Context(), os.Args[0], "child", "worker", pidFile)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	runner := pidFrom(t, pidFile)
	if err := w.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = w.Wait()
	gone(t, runner)
}
