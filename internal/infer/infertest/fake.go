// Package infertest holds what tests of runners share: the conformance suite
// that every worker.Runner passes, and a scriptable runner in memory.
package infertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// ErrClosed is the cause of the context that RunFunc sees once the Fake was
// closed.
var ErrClosed = errors.New("runner was closed")

var _ worker.Runner = (*Fake)(nil)

// Fake is a worker.Runner in memory, for tests of the core. It is strict: a
// caller that breaks the contract of worker.Runner fails the test. It does no
// I/O and starts no goroutine, so it works inside a testing/synctest bubble.
//
// Set the fields before the first call. The zero value of each is usable; T
// alone must be set.
type Fake struct {
	T testing.TB
	// Info is what Load answers. An empty ModelVersion becomes "fake-1".
	Info worker.Info
	// Concurrency is the number of Run calls allowed at once; 0 means 1.
	Concurrency int

	// LoadFunc is called by Load, and may wait or fail; its Info replaces the
	// field. Nil succeeds at once.
	LoadFunc func(ctx context.Context) (worker.Info, error)
	// PrepareFunc is called by Prepare. Nil is Prepare's default: JSON items
	// must be JSON, others are taken as they are.
	PrepareFunc func(ctx context.Context, it item.Item) (worker.Input, error)
	// RunFunc is called by Run, after its checks and outside any lock. ctx is
	// cancelled with the caller's, and with cause ErrClosed by Close. A
	// function that does not heed ctx makes a runner that is late to return.
	// Nil is Echo.
	RunFunc func(ctx context.Context, batch []worker.Input) ([]worker.Output, error)

	mu      sync.Mutex
	loaded  bool
	closed  bool
	running map[int]context.CancelCauseFunc // by number of the call
	batches [][]item.Key
}

// Echo answers each input with {"item_id": its ID}.
func Echo(batch []worker.Input) []worker.Output {
	outs := make([]worker.Output, 0, len(batch))
	for _, in := range batch {
		outs = append(outs, worker.Output{ItemID: in.Item.ItemID, Value: fmt.Appendf(nil, `{"item_id":%s}`, quote(in.Item.ItemID))})
	}
	return outs
}

func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always marshalled
	}
	return text
}

// Load implements worker.Runner.
func (f *Fake) Load(ctx context.Context) (worker.Info, error) {
	f.T.Helper()
	f.mu.Lock()
	loaded, closed := f.loaded, f.closed
	f.mu.Unlock()
	if loaded {
		f.T.Error("runner: Load called again")
	}
	if closed {
		return worker.Info{}, ErrClosed // Close may overtake Load
	}

	info := f.Info
	if f.LoadFunc != nil {
		var err error
		if info, err = f.LoadFunc(ctx); err != nil {
			return worker.Info{}, err
		}
	}
	if info.ModelVersion == "" {
		info.ModelVersion = "fake-1"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded, f.Info = true, info
	return info, nil
}

// prepared marks a Value as this package's, so that Run can tell whether its
// input went through Prepare.
type prepared struct{ data []byte }

// Prepare implements worker.Runner.
func (f *Fake) Prepare(ctx context.Context, it item.Item) (worker.Input, error) {
	if f.PrepareFunc != nil {
		return f.PrepareFunc(ctx, it)
	}
	if it.IsJSON() && !json.Valid(it.Data) {
		return worker.Input{}, worker.Failf(worker.ClassInvalidInput, "payload is not a JSON document")
	}
	return worker.Input{Item: it, Value: prepared{it.Data}, Bytes: int64(len(it.Data))}, nil
}

// Run implements worker.Runner.
func (f *Fake) Run(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
	f.T.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	number := f.enter(batch, cancel)
	defer f.leave(number) // again, for a RunFunc that panics

	var outs []worker.Output
	var err error
	if f.RunFunc != nil {
		outs, err = f.RunFunc(ctx, batch)
	} else {
		outs = Echo(batch)
	}

	if f.leave(number) && err == nil {
		return nil, worker.Fail(worker.ClassTransient, ErrClosed)
	}
	return outs, err
}

// enter checks the contract, records the batch and returns the call's number.
func (f *Fake) enter(batch []worker.Input, cancel context.CancelCauseFunc) int {
	f.T.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded {
		f.T.Error("runner: Run called before Load succeeded")
	}
	if f.closed {
		f.T.Error("runner: Run called after Close")
		cancel(ErrClosed)
	}
	if len(batch) == 0 {
		f.T.Error("runner: Run called with an empty batch")
	}
	if most := f.Info.MaxBatch; most > 0 && len(batch) > most {
		f.T.Errorf("runner: batch has %d items; MaxBatch is %d", len(batch), most)
	}
	keys := make([]item.Key, 0, len(batch))
	seen := make(map[string]bool, len(batch))
	for _, in := range batch {
		if seen[in.Item.ItemID] {
			f.T.Errorf("runner: item ID %q is twice in one batch", in.Item.ItemID)
		}
		if _, ok := in.Value.(prepared); !ok && f.PrepareFunc == nil {
			f.T.Errorf("runner: input of item %s did not come from Prepare", in.Item.Key)
		}
		seen[in.Item.ItemID] = true
		keys = append(keys, in.Item.Key)
	}
	if f.running == nil {
		f.running = make(map[int]context.CancelCauseFunc)
	}
	number := len(f.batches)
	f.batches = append(f.batches, keys)
	f.running[number] = cancel
	if n, most := len(f.running), max(f.Concurrency, 1); n > most {
		f.T.Errorf("runner: %d Run calls at once; %d are allowed", n, most)
	}
	return number
}

// leave forgets a call and reports whether the runner was closed meanwhile.
func (f *Fake) leave(number int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, number)
	return f.closed
}

// Close implements worker.Runner. It cancels the running calls and does not
// wait for them. Closing again is fine.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, cancel := range f.running {
		cancel(ErrClosed)
	}
	return nil
}

// Batches returns the keys of each batch that Run was called with, in order.
func (f *Fake) Batches() [][]item.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.batches)
}

// Runs returns how often the item was in a batch.
func (f *Fake) Runs(key item.Key) int {
	n := 0
	for _, batch := range f.Batches() {
		for _, k := range batch {
			if k == key {
				n++
			}
		}
	}
	return n
}

// Running returns the number of Run calls under way.
func (f *Fake) Running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.running)
}

// Closed reports whether Close was called.
func (f *Fake) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
