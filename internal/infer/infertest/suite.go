package infertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// patience is how long anything that the contract calls prompt may take; it is
// generous, since machines that run tests are slow at times.
const patience = 10 * time.Second

// Bundle is a runner and what the suite needs to know of it. Each test gets a
// new one.
type Bundle struct {
	// Runner is not loaded yet. The suite closes it.
	Runner worker.Runner
	// Good are at least two items that the model can run, with distinct IDs.
	Good []item.Item
	// Bad are items that Prepare must refuse, at least one.
	Bad []item.Item
	// Slow is an item whose run takes until it is interrupted, at least
	// seconds. Nil when the model has none; then only the end is checked of
	// what happens during Run.
	Slow *item.Item
	// Same reports how two outputs of one item differ; empty when they do
	// not. Nil compares bytes.
	Same func(a, b []byte) string
	// Concurrency is the number of Run calls at once; 0 means 1.
	Concurrency int
}

// Run checks that the runners that setup makes keep the contract of
// worker.Runner.
func Run(t *testing.T, setup func(t *testing.T) Bundle) {
	t.Helper()
	for _, tc := range []struct {
		name string
		test func(*suite)
	}{
		{"load says what it is", (*suite).info},
		{"one output for each item", (*suite).outputs},
		{"batch size does not change results", (*suite).batchSizes},
		{"prepare refuses bad items", (*suite).bad},
		{"prepare is safe for concurrent use", (*suite).concurrentPrepare},
		{"runs at once", (*suite).concurrentRuns},
		{"load heeds its context", (*suite).loadCancelled},
		{"run heeds its context", (*suite).runCancelled},
		{"run with a context that has ended", (*suite).runEnded},
		{"close during run", (*suite).closeDuringRun},
		{"close twice and before load", (*suite).closeEarly},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &suite{t, setup(t)}
			t.Cleanup(func() {
				if err := s.Runner.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			if len(s.Good) < 2 || len(s.Bad) < 1 {
				t.Fatal("the bundle needs two good items and a bad one")
			}
			tc.test(s)
		})
	}
}

type suite struct {
	*testing.T
	Bundle
}

// load loads the runner and returns good inputs, as many as fit a batch.
func (s *suite) load() (worker.Info, []worker.Input) {
	s.Helper()
	info, err := s.Runner.Load(s.Context())
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	good := s.Good
	if info.MaxBatch > 0 && len(good) > info.MaxBatch {
		good = good[:info.MaxBatch]
	}
	return info, s.prepare(good...)
}

func (s *suite) prepare(items ...item.Item) []worker.Input {
	s.Helper()
	ins := make([]worker.Input, 0, len(items))
	for _, it := range items {
		in, err := s.Runner.Prepare(s.Context(), it)
		if err != nil {
			s.Fatalf("Prepare(%s): %v", it.Key, err)
		}
		if in.Item.Key != it.Key {
			s.Errorf("Prepare(%s) answers for item %s", it.Key, in.Item.Key)
		}
		if in.Bytes < 0 {
			s.Errorf("Prepare(%s) says %d bytes", it.Key, in.Bytes)
		}
		ins = append(ins, in)
	}
	return ins
}

// run runs a batch of good items and checks what comes back.
func (s *suite) run(batch ...worker.Input) map[string][]byte {
	s.Helper()
	outs, err := s.Runner.Run(s.Context(), batch)
	if err != nil {
		s.Errorf("Run: %v", err)
		return nil
	}
	asked := make(map[string]bool, len(batch))
	for _, in := range batch {
		asked[in.Item.ItemID] = true
	}
	values := make(map[string][]byte, len(outs))
	for _, out := range outs {
		switch {
		case !asked[out.ItemID]:
			s.Errorf("output for item %q, which was not asked for or has one already", out.ItemID)
		case out.Err != nil:
			s.Errorf("item %q: %v", out.ItemID, out.Err)
		case !json.Valid(out.Value) || !utf8.Valid(out.Value):
			s.Errorf("item %q: output is not JSON: %.200q", out.ItemID, out.Value)
		}
		delete(asked, out.ItemID)
		values[out.ItemID] = out.Value
	}
	for id := range asked {
		s.Errorf("item %q has no output", id)
	}
	return values
}

func (s *suite) info() {
	info, _ := s.load()
	if info.ModelVersion == "" || utf8.RuneCountInString(info.ModelVersion) > 128 || strings.ContainsAny(info.ModelVersion, "\n\r") {
		s.Errorf("ModelVersion = %q; want 1 to 128 characters on one line", info.ModelVersion)
	}
	if info.MaxBatch < 0 {
		s.Errorf("MaxBatch = %d", info.MaxBatch)
	}
}

func (s *suite) outputs() {
	_, ins := s.load()
	s.run(ins[0])
	s.run(ins...)
	s.run(ins[len(ins)-1])
}

func (s *suite) batchSizes() {
	_, ins := s.load()
	differ := s.Same
	if differ == nil {
		differ = func(a, b []byte) string {
			if bytes.Equal(a, b) {
				return ""
			}
			return fmt.Sprintf("%.200q and %.200q", a, b)
		}
	}
	together := s.run(ins...)
	for _, in := range ins {
		id := in.Item.ItemID
		if diff := differ(together[id], s.run(in)[id]); diff != "" {
			s.Errorf("item %q, in a batch of %d and alone, differs: %s", id, len(ins), diff)
		}
	}
}

func (s *suite) bad() {
	_, ins := s.load()
	for _, it := range s.Bad {
		_, err := s.Runner.Prepare(s.Context(), it)
		if got := worker.ClassOf(err, "none"); err == nil || got != worker.ClassInvalidInput {
			s.Errorf("Prepare(%s) = %v, class %s; want class invalid_input", it.Key, err, got)
		}
	}
	s.run(ins...)
}

func (s *suite) concurrentPrepare() {
	_, ins := s.load()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				for _, it := range s.Good {
					if _, err := s.Runner.Prepare(s.Context(), it); err != nil {
						s.Errorf("Prepare(%s): %v", it.Key, err)
					}
				}
			}
		})
	}
	s.run(ins...)
	wg.Wait()
}

func (s *suite) concurrentRuns() {
	_, ins := s.load()
	var wg sync.WaitGroup
	for range max(s.Concurrency, 1) {
		wg.Go(func() {
			for range 5 {
				s.run(ins...)
			}
		})
	}
	wg.Wait()
}

func (s *suite) loadCancelled() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.prompt("Load with a context that has ended", func() {
		_, _ = s.Runner.Load(ctx) // it may have been quick enough to succeed
	})
}

// busy returns the batch to interrupt, and whether it lasts.
func (s *suite) busy(ins []worker.Input) (batch []worker.Input, lasts bool) {
	if s.Slow == nil {
		return ins, false
	}
	return s.prepare(*s.Slow), true
}

func (s *suite) runCancelled() {
	_, ins := s.load()
	batch, lasts := s.busy(ins)
	ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
	defer cancel()
	s.prompt("Run with a context that ends", func() {
		_, err := s.Runner.Run(ctx, batch)
		if lasts && err == nil {
			s.Error("Run returned no error; the slow item was to be interrupted")
		}
		if class := worker.ClassOf(err, worker.ClassBatchError); err != nil && class != worker.ClassTransient {
			s.Errorf("Run = %v, class %s; want transient, which says nothing about the items", err, class)
		}
	})
	s.run(ins...) // the runner is whole again, or waits until it is
}

func (s *suite) runEnded() {
	_, ins := s.load()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.prompt("Run with a context that has ended", func() { _, _ = s.Runner.Run(ctx, ins) })
	s.run(ins...)
}

func (s *suite) closeDuringRun() {
	_, ins := s.load()
	batch, lasts := s.busy(ins)
	began := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(began)
		_, err := s.Runner.Run(s.Context(), batch)
		ended <- err
	}()
	<-began
	if lasts {
		// Nothing tells when the item is inside the model. Should it not be
		// yet, the test is only less sharp.
		<-time.After(50 * time.Millisecond)
	}
	s.prompt("Close during Run", func() {
		if err := s.Runner.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	s.prompt("Run after Close began", func() {
		if err := <-ended; err == nil && lasts {
			s.Error("Run returned no error after Close")
		}
	})
}

func (s *suite) closeEarly() {
	for range 2 {
		if err := s.Runner.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
}

// prompt fails when do takes too long.
func (s *suite) prompt(what string, do func()) {
	s.Helper()
	start := time.Now()
	do()
	if d := time.Since(start); d > patience {
		s.Errorf("%s took %s; want at most %s", what, d, patience)
	}
}
