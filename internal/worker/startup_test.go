package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// logLines collects a log. It is safe for concurrent use.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// with returns the lines with the message.
func (l *logLines) with(t *testing.T, message string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for text := range strings.Lines(l.buf.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// logTo makes b log into l.
func (b *bundle) logTo(l *logLines) {
	before := b.change
	b.change = func(d *worker.Deps) {
		if before != nil {
			before(d)
		}
		d.Log = slog.New(slog.NewJSONHandler(l, nil))
	}
}

// check makes b wait for a check.
func (b *bundle) check(name string, try func(context.Context) error) {
	before := b.change
	b.change = func(d *worker.Deps) {
		if before != nil {
			before(d)
		}
		d.Checks = append(d.Checks, worker.Check{Name: name, Try: try})
	}
}

var errAway = errors.New("no answer yet")

// What comes late is waited for, model and cloud alike: one line of the log for
// each try, no readiness and no delivery before, and nothing wrong after.
func TestStartWaitsForWhatComesLate(t *testing.T) {
	inBubble(t, func(b *bundle) {
		var log logLines
		tries := 0
		b.check("Spanner", func(context.Context) error {
			if tries++; tries <= 5 {
				return errAway
			}
			return nil
		})
		loads := 0
		b.runner.LoadFunc = func(context.Context) (worker.Info, error) {
			if loads++; loads <= 2 {
				return worker.Info{}, errors.New("the driver is not there yet")
			}
			return worker.Info{}, nil
		}
		b.logTo(&log)
		b.source.Add(items(4)...)
		start := time.Now()
		b.start()
		time.Sleep(2 * time.Second) // fake time
		if b.worker.Ready() || b.source.Receives() != 0 {
			t.Errorf("2s after the start: ready %t, %d intakes; want none before the last check has passed", b.worker.Ready(), b.source.Receives())
		}
		if err := b.worker.Alive(); err != nil {
			t.Errorf("alive during the start: %v", err)
		}
		b.waitFor("readiness", b.worker.Ready)
		// 100 ms, doubled four times, less at most a quarter.
		if took := time.Since(start); took < 2325*time.Millisecond || took > 3110*time.Millisecond {
			t.Errorf("ready after %s, want about 3s", took)
		}
		b.finish(4)
		b.wantCounts(4, 0)
		failed := map[any]int{}
		for _, line := range log.with(t, "not ready yet; trying again") {
			failed[line["what"]]++
			if line["error"] == "" || line["next_try_in"] == "" {
				t.Errorf("line without error or next try: %v", line)
			}
		}
		if failed["Spanner"] != 5 || failed["model"] != 2 {
			t.Errorf("lines of failed tries: %v, want 5 of Spanner and 2 of model", failed)
		}
	})
}

// What can never heal ends the start at once, whatever else is slow.
func TestStartGivesUpAtOnceWhatNeverHeals(t *testing.T) {
	missing := worker.Permanent(errors.New("subscription does not exist"))
	for _, tt := range []struct {
		name string
		set  func(b *bundle)
		want error
	}{
		{"check", func(b *bundle) {
			b.check("Pub/Sub", func(context.Context) error { return missing })
			b.runner.LoadFunc = func(ctx context.Context) (worker.Info, error) { <-ctx.Done(); return worker.Info{}, ctx.Err() }
		}, missing},
		{"model", func(b *bundle) {
			b.check("Pub/Sub", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			b.runner.LoadFunc = func(context.Context) (worker.Info, error) { return worker.Info{}, missing }
		}, missing},
		// No try in this process finds the device that was not there.
		{"no device", func(b *bundle) {
			b.check("Pub/Sub", func(context.Context) error { return errAway })
			b.runner.LoadFunc = func(context.Context) (worker.Info, error) {
				return worker.Info{}, worker.Failf(worker.ClassDevice, "no CUDA-capable device is detected")
			}
		}, worker.ErrDevice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				tt.set(b)
				start := time.Now()
				b.start()
				<-b.ended
				if took := time.Since(start); took != 0 || !errors.Is(b.err, tt.want) {
					t.Errorf("Run: got %v after %s, want %v at once", b.err, took, tt.want)
				}
				if strings.Contains(b.err.Error(), "\n") {
					t.Errorf("the error has more than one line: %q", b.err)
				}
				if !b.runner.Closed() {
					t.Error("the runner was not closed")
				}
			})
		})
	}
}

// The start ends with model.start_timeout, and says what was missing last.
func TestStartEndsWithItsTimeout(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(context.Context) error
		want string
	}{
		{"fails", func(context.Context) error { return errAway }, errAway.Error()},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "not ready"},
		{"fails, then hangs", failThenHang(), errAway.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.check("Spanner", tt.try)
				start := time.Now()
				b.start()
				<-b.ended
				if took := time.Since(start); took != b.cfg.LoadTimeout {
					t.Errorf("gave up after %s, want %s", took, b.cfg.LoadTimeout)
				}
				if b.err == nil || !strings.Contains(b.err.Error(), "model.start_timeout (1m0s)") || !strings.Contains(b.err.Error(), tt.want) {
					t.Errorf("Run: got %v, want the time-out and %q", b.err, tt.want)
				}
			})
		})
	}
}

func failThenHang() func(context.Context) error {
	first := true
	return func(ctx context.Context) error {
		if first {
			first = false
			return errAway
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// A stop during the start is no failure, in a try and between two of them.
func TestStopDuringTheStart(t *testing.T) {
	for name, try := range map[string]func(context.Context) error{
		"between two tries": func(context.Context) error { return errAway },
		"in a try":          func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.check("Spanner", try)
				b.start()
				time.Sleep(10 * time.Second) // fake time
				if took := b.stop(); took != 0 || b.err != nil {
					t.Errorf("stopped after %s with %v, want at once and nil", took, b.err)
				}
			})
		})
	}
}
