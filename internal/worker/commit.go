package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/crash"
)

// commitBatches is how many finished batches go into one commit at most. They
// gather while all commits are under way; the store splits what is too large.
const commitBatches = 32

// success is the result of an item that the model answered.
func success(output []byte) Result { return Result{Status: StatusOK, Output: output} }

// failure is the result of an item that is given up.
func (w *Worker) failure(t *task, class Class, message string) Result {
	w.metrics.failure(class)
	w.deps.Log.DebugContext(t.ctx, "item failed", "run_id", t.item.RunID, "item_id", t.item.ItemID, "class", class, "message", message)
	return Result{Status: StatusFailed, Class: class, Message: message}
}

// fail sends t to the store as FAILED.
func (w *Worker) fail(t *task, class Class, message string) {
	w.finish([]finished{{task: t, result: w.failure(t, class, message)}})
}

// finish completes results and sends them on their way to the store.
func (w *Worker) finish(batch []finished) {
	ready := batch[:0]
	for _, f := range batch {
		spent, attempted, ok := w.leaveModel(f.task, f.result.Status)
		if !ok {
			continue
		}
		f.result.Attempted = attempted
		f.result.Key = f.task.item.Key
		f.result.ModelVersion = w.info.ModelVersion
		f.result.Worker = w.cfg.Name
		f.result.InferMillis = float64(spent) / float64(time.Millisecond)
		ready = append(ready, f)
	}
	if len(ready) > 0 {
		// toCommit has room for every task that may be held, so that the model
		// never waits for the store. Once the pipeline has stopped, the drain
		// has settled them.
		send(w.work, w.toCommit, ready)
	}
}

// commit stores results, several commits at once, and settles their tasks.
func (w *Worker) commit(ctx context.Context, in <-chan []finished) error {
	commits, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, w.cfg.CommitConcurrency)
	for {
		if !send(ctx, slots, struct{}{}) {
			return commits.Wait()
		}
		batches := gather(ctx, in, commitBatches)
		if batches == nil {
			return commits.Wait()
		}
		batch := slices.Concat(batches...)
		commits.Go(func() error {
			defer func() { <-slots }()
			w.commitBatch(ctx, batch)
			return nil
		})
	}
}

// commitBatch acks the tasks whose rows are durable and gives back those whose
// rows are not, once StoreTimeout is over.
func (w *Worker) commitBatch(ctx context.Context, batch []finished) {
	// An item that was given back while its result was queued may be here once
	// more, with the result of its next delivery; a key goes into a commit once.
	batch = slices.DeleteFunc(batch, func(f finished) bool { return !w.alive(f.task) })
	if len(batch) == 0 {
		return
	}
	start := time.Now()
	tasks := make([]*task, len(batch))
	for i, f := range batch {
		tasks[i] = f.task
	}
	ctx, span := w.spanOver(ctx, "commit", tasks)
	defer span.End()
	commitCtx, cancel := context.WithTimeout(ctx, w.cfg.StoreTimeout)
	defer cancel()

	var pause backoff
	for {
		rest, err := w.commitOnce(commitCtx, batch)
		if len(rest) == 0 {
			w.metrics.took(stageCommit, start)
			w.pace.commit.add(time.Since(start))
			return
		}
		batch = rest
		if err == nil {
			continue
		}
		if !pause.wait(commitCtx) {
			span.RecordError(err)
			w.notStored(ctx, err, batch)
			return
		}
	}
}

// notStored gives back what could not be stored in time. Rows that are refused
// for their content say nothing about the store.
func (w *Worker) notStored(ctx context.Context, err error, batch []finished) {
	tasks := make([]*task, len(batch))
	for i, f := range batch {
		tasks[i] = f.task
	}
	if errors.Is(err, ErrRejected) {
		w.metrics.failure(ClassStore)
		w.deps.Log.WarnContext(ctx, "rows refused by the store; items given back", "items", len(tasks), "error", err)
		w.giveBack(nackStore, tasks...)
		return
	}
	w.storeFailed(ctx, "commit results", err, tasks)
}

// commitOnce tries one commit. It returns what is still to be stored, and the
// error that makes a pause advisable before the next try.
func (w *Worker) commitOnce(ctx context.Context, batch []finished) (rest []finished, err error) {
	results := make([]Result, len(batch))
	for i, f := range batch {
		results[i] = f.result
	}
	crash.At(crash.BeforeCommit)
	errs := w.deps.Store.Commit(ctx, results)
	crash.At(crash.AfterCommit)
	if len(errs) != len(results) {
		return batch, Failf(ClassStore, "the store answered for %d of %d results", len(errs), len(results))
	}
	var stored []finished
	for i, f := range batch {
		switch {
		case errs[i] == nil:
			stored = append(stored, f)
		case errors.Is(errs[i], ErrRejected) && f.result.Status == StatusOK:
			// The row is bad, not the store: what is wrong becomes the result.
			w.metrics.failure(ClassInvalidOutput)
			if w.unwanted(f.task) {
				continue
			}
			f.result.Status, f.result.Output = StatusFailed, nil
			f.result.Class, f.result.Message = ClassInvalidOutput, fmt.Sprintf("output cannot be stored: %s", Reason(errs[i]))
			rest = append(rest, f)
		default:
			rest, err = append(rest, f), errs[i]
		}
	}
	w.stored(stored)
	return rest, err
}

// stored settles the tasks whose results are durable. It counts them all
// together, since to count costs as much as to settle.
func (w *Worker) stored(done []finished) {
	if len(done) > 0 {
		w.working.Store(true)
	}
	var ok, failed int64
	var useful, spoilt time.Duration
	for _, f := range done {
		if !w.settle(f.task, Ack, "") {
			continue
		}
		spent := time.Duration(f.result.InferMillis * float64(time.Millisecond))
		if f.result.Status == StatusOK {
			ok, useful = ok+1, useful+spent
		} else {
			failed, spoilt = failed+1, spoilt+spent
		}
	}
	w.metrics.items.add(outcomeOK, ok)
	w.metrics.items.add(outcomeFailed, failed)
	w.metrics.device.add(useUseful, useful)
	w.metrics.device.add(useFailed, spoilt)
}
