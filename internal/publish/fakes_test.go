package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// rows is a dataset in memory.
type rows struct {
	name string
	ids  []string
	// survey is what the first reading sees; nil means ids.
	survey []string
	// end is the error after the last item of Items.
	end error
}

func (r *rows) Name() string { return r.name }

func (r *rows) Survey(ctx context.Context) dataset.Entries {
	if r.survey != nil {
		return entries(ctx, r.survey, nil)
	}
	return entries(ctx, r.ids, nil)
}

func (r *rows) Items(ctx context.Context) dataset.Entries { return entries(ctx, r.ids, r.end) }

func entries(ctx context.Context, ids []string, end error) dataset.Entries {
	return func(yield func(dataset.Entry, error) bool) {
		for i, id := range ids {
			if ctx.Err() != nil {
				yield(dataset.Entry{}, context.Cause(ctx))
				return
			}
			e := dataset.Entry{
				Item:     item.Item{Key: item.Key{ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(`{}`)},
				Position: dataset.Position{File: "rows", Line: i + 1},
			}
			if !yield(e, nil) {
				return
			}
		}
		if end != nil {
			yield(dataset.Entry{}, end)
		}
	}
}

func numbered(n int) *rows {
	r := &rows{name: "numbers"}
	for i := range n {
		r.ids = append(r.ids, fmt.Sprint(i))
	}
	return r
}

// memoryRuns keeps runs, and holds callers to the contract of Runs.
type memoryRuns struct {
	mu      sync.Mutex
	rows    map[string]Run
	updates []Run
	// fail is asked before each update; applied says whether it is kept
	// although an error is returned.
	fail func(update int) (applied bool, err error)
}

func newRuns() *memoryRuns { return &memoryRuns{rows: map[string]Run{}} }

func (r *memoryRuns) Begin(_ context.Context, id, dataset string) (Run, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, found := r.rows[id]; found {
		return run, false, nil
	}
	run := Run{ID: id, Dataset: dataset, State: StatePublishing, CreatedAt: time.Now()}
	r.rows[id] = run
	return run, true, nil
}

func (r *memoryRuns) Update(ctx context.Context, id string, state State, published int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	run, found := r.rows[id]
	if !found {
		return ErrNoRun
	}
	switch {
	case run.State == StateCancelled:
		return ErrCancelled
	case run.State == StatePublished && state == StatePublishing:
		return ErrPublished
	}
	run.State, run.Published = state, max(run.Published, published)
	r.updates = append(r.updates, run)
	applied, err := true, error(nil)
	if r.fail != nil {
		applied, err = r.fail(len(r.updates))
	}
	if err == nil || applied {
		r.rows[id] = run
	}
	return err
}

func (r *memoryRuns) Get(_ context.Context, id string) (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, found := r.rows[id]; found {
		return run, nil
	}
	return Run{}, ErrNoRun
}

// memoryTopic confirms what it is sent after a while.
type memoryTopic struct {
	mu   sync.Mutex
	sent []item.Item
	// delay is the time from sending to confirming.
	delay time.Duration
	// fail is asked for each message in the order of sending, from 0.
	fail func(n int) error
	// hang makes confirmations from this one on never come; 0 means none.
	hang int
}

type later struct {
	ready <-chan time.Time
	err   error
}

func (l later) Wait(ctx context.Context) error {
	select {
	case <-l.ready:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *memoryTopic) Publish(ctx context.Context, it item.Item) Confirmation {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.sent)
	if err := ctx.Err(); err != nil {
		return later{ready: time.After(0), err: err}
	}
	t.sent = append(t.sent, it)
	if t.hang > 0 && n >= t.hang {
		return later{}
	}
	var err error
	if t.fail != nil {
		err = t.fail(n)
	}
	return later{ready: time.After(t.delay), err: err}
}

// noProgress is a Progress that checks the order of its calls.
type noProgress struct {
	t    *testing.T
	open bool
}

func (p *noProgress) Begin(string, int64) {
	if p.open {
		p.t.Error("progress: Begin before End")
	}
	p.open = true
}

func (p *noProgress) Show(int64, int64) {
	if !p.open {
		p.t.Error("progress: Show outside a pass")
	}
}

func (p *noProgress) End() {
	if !p.open {
		p.t.Error("progress: End before Begin")
	}
	p.open = false
}

func newPublisher(t *testing.T, topic Topic, window int, runs Runs) *Publisher {
	t.Helper()
	p, err := New(t.Context(), topic, window, runs, &noProgress{t: t}, noop.NewMeterProvider(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var errBroken = errors.New("broken")
