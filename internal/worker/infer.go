package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spotbatch/spotbatch/internal/crash"
	"github.com/spotbatch/spotbatch/internal/item"
)

// lateReturn is how long after infer.timeout a run may still return.
const lateReturn = time.Minute

// errTooSlow is in the chain of the error of a run that was stopped for the time
// it took.
var errTooSlow = errors.New("the model took longer than infer.timeout")

// infer takes batches one after the other, for as long as ctx lives. Each
// concurrent batch of the model has an infer of its own.
func (w *Worker) infer(ctx context.Context, in <-chan []*task) error {
	for {
		start, cause := time.Now(), w.idleCause()
		select {
		case tasks := <-in:
			w.metrics.idle.add(cause, time.Since(start))
			w.inferBatch(ctx, tasks)
		case <-ctx.Done():
			return nil
		}
	}
}

// idleCause says why the model would have to wait now.
func (w *Worker) idleCause() idleCause {
	switch held := w.count(); {
	case held[waiting] > 0:
		return idleStarved
	case held[committing] > 0:
		return idleCommitting
	default:
		return idleNoWork
	}
}

// inferBatch puts tasks through the model until each of them has a result, or
// was given back. What follows from a failure is decided in policy.go.
func (w *Worker) inferBatch(ctx context.Context, tasks []*task) {
	ctx, span := w.spanOver(ctx, "batch", tasks)
	defer span.End()
	plan := w.newPlan(tasks)
	for {
		group := plan.pop(w.batchLimit())
		if group == nil {
			return
		}
		group, outputs, err := w.runGroup(ctx, group)
		if len(group) == 0 {
			continue
		}
		if err == nil {
			err = w.takeOutputs(ctx, group, outputs, plan)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			// The hard stop settles what is left.
			return
		}
		w.afterFailure(ctx, plan, group, err)
	}
}

// runGroup runs what is left of group: what was given back meanwhile is not run.
// An item in quarantine has the model for itself, so that it is neither the death
// of another batch nor the other way round.
func (w *Worker) runGroup(ctx context.Context, group []*task) ([]*task, []Output, error) {
	places := int64(1)
	if group[0].quarantined {
		places = int64(w.cfg.InferConcurrency)
	}
	if w.places.Acquire(ctx, places) != nil {
		return nil, nil, nil
	}
	defer w.places.Release(places)
	if group[0].quarantined && !w.recordStarts(ctx, group, true) {
		return nil, nil, nil
	}
	if group = w.enterModel(group); len(group) == 0 {
		return nil, nil, nil
	}
	crash.At(crash.BeforeInfer)
	outputs, err := w.callRunner(ctx, group)
	crash.At(crash.AfterInfer)
	return group, outputs, err
}

// callRunner is one run of the model.
func (w *Worker) callRunner(ctx context.Context, group []*task) ([]Output, error) {
	runCtx, cancel := context.WithTimeoutCause(ctx, w.cfg.InferTimeout,
		Fail(ClassTransient, fmt.Errorf("%w (%s)", errTooSlow, w.cfg.InferTimeout)))
	defer cancel()
	runCtx, span := w.span(runCtx, "infer")
	defer span.End()

	inputs := make([]Input, len(group))
	for i, t := range group {
		inputs[i] = t.input
		w.metrics.took(stageWait, t.loaded)
	}
	w.metrics.batchSize.Record(ctx, int64(len(group)))
	w.deps.Log.DebugContext(ctx, "batch enters the model", "items", len(group))
	start := time.Now()
	outputs, err := w.runInTime(runCtx, inputs)
	w.progress.made()
	took := time.Since(start)
	w.metrics.took(stageInfer, start)
	w.pace.infer.add(took)
	w.spend(group, took)
	if err != nil {
		span.RecordError(err)
		if ctx.Err() == nil && errors.Is(runCtx.Err(), context.DeadlineExceeded) && ClassOf(err, "") != ClassDevice {
			return nil, fmt.Errorf("%w: %w", context.Cause(runCtx), err)
		}
	}
	return outputs, err
}

// runInTime runs the model, and gives it up for broken when it is still busy
// long after it was told to stop: native code that is stuck would hold its
// items, and its place among the concurrent batches, for ever.
func (w *Worker) runInTime(ctx context.Context, inputs []Input) ([]Output, error) {
	type answer struct {
		outputs []Output
		err     error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the run, or with the process
		outputs, err := w.guardedRun(ctx, inputs)
		answers <- answer{outputs, err}
	}()
	limit := time.NewTimer(w.cfg.InferTimeout + lateReturn)
	defer limit.Stop()
	select {
	case a := <-answers:
		return a.outputs, a.err
	case <-limit.C:
		return nil, Failf(ClassDevice, "the model is stuck: it did not return within %s after infer.timeout (%s)", lateReturn, w.cfg.InferTimeout)
	}
}

// guardedRun turns a panic of the runner into an error of its batch.
func (w *Worker) guardedRun(ctx context.Context, inputs []Input) (outputs []Output, err error) {
	defer w.recoverTo(ctx, &err, ClassBatchError)
	return w.deps.Runner.Run(ctx, inputs)
}

// guardedPrepare turns a panic of the runner's decoder into an error of the
// item.
func (w *Worker) guardedPrepare(ctx context.Context, it item.Item) (input Input, err error) {
	defer w.recoverTo(ctx, &err, ClassInvalidInput)
	return w.deps.Runner.Prepare(ctx, it)
}

func (w *Worker) recoverTo(ctx context.Context, err *error, class Class) {
	if p := recover(); p != nil {
		*err = Failf(class, "runner panicked: %v", p)
		w.deps.Log.ErrorContext(ctx, "runner panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}
