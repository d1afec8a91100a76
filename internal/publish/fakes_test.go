package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// hash is a part of the identity of the source.
	hash string
	// checkErr is what Check returns.
	checkErr error
	// checks counts calls of Check, and reads where each reading began.
	checks int
	reads  []int64
}

func (r *rows) Name() string { return r.name }

func (r *rows) Survey(ctx context.Context) dataset.Entries {
	if r.survey != nil {
		return entries(ctx, r.survey, nil, dataset.Position{})
	}
	return entries(ctx, r.ids, nil, dataset.Position{})
}

func (r *rows) ItemsAfter(ctx context.Context, after dataset.Position) dataset.Entries {
	r.reads = append(r.reads, after.Counts.Read)
	return entries(ctx, r.ids, r.end, after)
}

func (r *rows) Sources() []dataset.Source {
	return []dataset.Source{{Name: r.name, Size: int64(len(r.ids)), Hash: r.hash}}
}

func (r *rows) Check(ctx context.Context, show func(dataset.Counts)) (dataset.Report, error) {
	r.checks++
	report := dataset.Report{Sources: r.Sources()}
	if r.checkErr != nil {
		return report, r.checkErr
	}
	for entry, err := range r.Survey(ctx) {
		if err != nil {
			return report, err
		}
		report.Counts = entry.Position.Counts
		show(report.Counts)
	}
	return report, nil
}

// entries gives the items after a position; IDs that begin with an exclamation
// mark are bad rows.
func entries(ctx context.Context, ids []string, end error, after dataset.Position) dataset.Entries {
	return func(yield func(dataset.Entry, error) bool) {
		counts := after.Counts
		for i, id := range ids {
			if int64(i) < after.Row {
				continue
			}
			if ctx.Err() != nil {
				yield(dataset.Entry{}, context.Cause(ctx))
				return
			}
			e := dataset.Entry{
				Item:     item.Item{Key: item.Key{ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(`{}`)},
				Position: dataset.Position{File: "rows", Line: i + 1, Row: int64(i + 1)},
			}
			counts.Read++
			if strings.HasPrefix(id, "!") {
				counts.Rejected++
				e.Problem = errBroken
			} else {
				counts.Items++
				counts.Bytes += int64(len(e.Data))
			}
			e.Position.Counts = counts
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

// set sets the state of a run; an empty one removes it.
func (r *memoryRuns) set(id string, state State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.rows[id]
	run.State = state
	if r.rows[id] = run; state == "" {
		delete(r.rows, id)
	}
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

func (p *noProgress) Begin(string, int64, dataset.Counts) {
	if p.open {
		p.t.Error("progress: Begin before End")
	}
	p.open = true
}

func (p *noProgress) Show(dataset.Counts) {
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
	p, err := New(t.Context(), Config{Window: window}, topic, runs, &noProgress{t: t}, noop.NewMeterProvider(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// memoryCheckpoint is a Checkpoint as a process that starts finds it: what was
// saved goes through JSON.
type memoryCheckpoint struct {
	mu    sync.Mutex
	data  []byte
	saves []time.Time
	// fail is asked before each save; applied says whether it is kept although
	// an error is returned.
	fail func(save int) (applied bool, err error)
}

func (c *memoryCheckpoint) Load(_ context.Context, value any) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data == nil {
		return false, nil
	}
	return true, json.Unmarshal(c.data, value)
}

func (c *memoryCheckpoint) Save(ctx context.Context, value any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.saves = append(c.saves, time.Now())
	applied, err := true, error(nil)
	if c.fail != nil {
		applied, err = c.fail(len(c.saves))
	}
	if err == nil || applied {
		c.data = data
	}
	return err
}

var errBroken = errors.New("broken")
