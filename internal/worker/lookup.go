package worker

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/crash"
	"github.com/spotbatch/spotbatch/internal/item"
)

const (
	// lookupReads is the number of reads in flight. While all are under way
	// the next one gathers keys, so that few large reads serve a backlog and
	// a lone item is read at once.
	lookupReads = 4
	// lookupKeys is the number of keys in one read. Above it one read takes
	// longer for no gain in throughput; a guess that was never the limit.
	lookupKeys = 256
)

// lookup acks the items whose result is stored and passes the others on.
func (w *Worker) lookup(ctx context.Context, in <-chan *task, out chan<- *task) error {
	reads, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, lookupReads)
	for {
		if !send(ctx, slots, struct{}{}) {
			return reads.Wait()
		}
		tasks := gather(ctx, in, lookupKeys)
		if tasks == nil {
			return reads.Wait()
		}
		reads.Go(func() error {
			defer func() { <-slots }()
			for _, t := range w.unstored(ctx, tasks) {
				crash.At(crash.AfterLookup)
				if !send(ctx, out, t) {
					break
				}
			}
			return nil
		})
	}
}

// wanted acks the tasks of cancelled runs and returns the others. It is the one
// place that acks an item without a result: nobody wants it any more.
func (w *Worker) wanted(ctx context.Context, tasks []*task) []*task {
	cancelled, err := w.deps.Cancellations.Cancelled(ctx)
	if err != nil {
		w.deps.Log.DebugContext(ctx, "cancelled runs not read; going on with what was known", "error", err)
	}
	if len(cancelled) == 0 {
		return tasks
	}
	rest := tasks[:0]
	for _, t := range tasks {
		if !cancelled[t.item.RunID] {
			rest = append(rest, t)
			continue
		}
		if w.settle(t, Ack, "") {
			w.metrics.item(outcomeSkipped)
		}
	}
	return rest
}

// unstored acks the tasks whose result is stored, or not wanted any more, and
// returns the others.
func (w *Worker) unstored(ctx context.Context, tasks []*task) []*task {
	start := time.Now()
	// One that was given back may be here once more, with its next delivery.
	if tasks = w.wanted(ctx, w.living(tasks)); len(tasks) == 0 {
		return nil
	}
	ctx, span := w.spanOver(ctx, "lookup", tasks)
	defer span.End()
	keys := make([]item.Key, len(tasks))
	for i, t := range tasks {
		keys[i] = t.item.Key
	}
	stored, err := w.readStored(ctx, keys)
	w.metrics.took(stageLookup, start)
	if err != nil {
		span.RecordError(err)
		w.storeFailed(ctx, "look up results", err, tasks)
		return nil
	}
	rest := tasks[:0]
	for _, t := range tasks {
		// Only an OK row of this very model stands for a model run. A FAILED
		// one is tried again, since it is delivered again only after a lost
		// ack or because somebody asked for it.
		if row, found := stored[t.item.Key]; !found || row.Status != StatusOK || row.ModelVersion != w.info.ModelVersion {
			rest = append(rest, t)
			continue
		}
		if w.settle(t, Ack, "") {
			w.metrics.item(outcomeSkipped)
		}
	}
	return w.convict(ctx, rest)
}

// readStored reads until it has an answer or StoreTimeout is over.
func (w *Worker) readStored(ctx context.Context, keys []item.Key) (stored map[item.Key]Stored, err error) {
	err = w.untilAnswered(ctx, func(ctx context.Context) error {
		stored, err = w.deps.Store.Lookup(ctx, keys)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up %d items: %w", len(keys), err)
	}
	return stored, nil
}
