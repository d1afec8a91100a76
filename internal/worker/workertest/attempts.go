package workertest

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ worker.Attempts = (*Attempts)(nil)

// Attempts is a worker.Attempts in memory.
type Attempts struct {
	T testing.TB
	// OnRead, OnRecord and OnTakeBack are asked before each call, with its
	// number from 0, and may wait. Nil means no fault.
	OnRead     func(ctx context.Context, n int) error
	OnRecord   func(ctx context.Context, n int) Fault
	OnTakeBack func(ctx context.Context, n int) Fault

	mu        sync.Mutex
	records   map[item.Key]worker.Attempt
	reads     int
	writes    int
	takeBacks int
}

// Set puts a record there, as another worker would have.
func (a *Attempts) Set(attempts ...worker.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.records == nil {
		a.records = make(map[item.Key]worker.Attempt)
	}
	for _, r := range attempts {
		a.records[r.Key] = r
	}
}

// Records returns a copy of what is recorded.
func (a *Attempts) Records() map[item.Key]worker.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.records)
}

// Writes returns the number of Record calls so far.
func (a *Attempts) Writes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// end removes a record, as the commit of a result does.
func (a *Attempts) end(key item.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.records, key)
}

// Read implements worker.Attempts.
func (a *Attempts) Read(ctx context.Context, keys []item.Key) (map[item.Key]worker.Attempt, error) {
	a.distinct("Read", keys)
	n := a.count(&a.reads)
	if a.OnRead != nil {
		if err := a.OnRead(ctx, n); err != nil {
			return nil, worker.Fail(worker.ClassStore, err)
		}
	}
	if ctx.Err() != nil {
		return nil, worker.Fail(worker.ClassStore, ctx.Err())
	}
	found := make(map[item.Key]worker.Attempt)
	records := a.Records()
	for _, k := range keys {
		if r, ok := records[k]; ok {
			found[k] = r
		}
	}
	return found, nil
}

// Record implements worker.Attempts.
func (a *Attempts) Record(ctx context.Context, attempts []worker.Attempt) error {
	keys := make([]item.Key, len(attempts))
	for i, r := range attempts {
		keys[i] = r.Key
		if r.Worker == "" || r.Started < 0 {
			a.T.Errorf("attempts: record of %s has worker %q and started %d", r.Key, r.Worker, r.Started)
		}
	}
	a.distinct("Record", keys)
	return a.write(ctx, a.OnRecord, a.count(&a.writes), func() { a.Set(attempts...) })
}

// TakeBack implements worker.Attempts.
func (a *Attempts) TakeBack(ctx context.Context, name string, kept []worker.Attempt, gone []item.Key) error {
	keys := append([]item.Key{}, gone...)
	for _, r := range kept {
		keys = append(keys, r.Key)
	}
	a.distinct("TakeBack", keys)
	return a.write(ctx, a.OnTakeBack, a.count(&a.takeBacks), func() {
		records := a.Records()
		ours := func(key item.Key) bool {
			r, ok := records[key]
			return !ok || r.Worker == name
		}
		for _, r := range kept {
			if ours(r.Key) {
				a.Set(r)
			}
		}
		for _, key := range gone {
			if ours(key) {
				a.end(key)
			}
		}
	})
}

// write does one write with its fault.
func (a *Attempts) write(ctx context.Context, on func(context.Context, int) Fault, n int, effect func()) error {
	var fault Fault
	if on != nil {
		fault = on(ctx, n)
	}
	if fault.Err == nil && ctx.Err() != nil {
		fault = Fault{Err: ctx.Err()}
	}
	if fault.Err == nil || fault.Kept {
		effect()
	}
	return worker.Fail(worker.ClassStore, fault.Err)
}

func (a *Attempts) count(calls *int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	*calls++
	return *calls - 1
}

// distinct fails the test on a call that breaks the contract.
func (a *Attempts) distinct(method string, keys []item.Key) {
	a.T.Helper()
	if len(keys) == 0 {
		a.T.Errorf("attempts: %s called without keys", method)
	}
	seen := make(map[item.Key]bool, len(keys))
	for _, k := range keys {
		if seen[k] {
			a.T.Errorf("attempts: key %s is twice in one %s", k, method)
		}
		seen[k] = true
	}
}
