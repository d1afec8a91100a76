package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

const (
	// transientTries is how often a batch is tried while its runner is
	// unreachable or overloaded, before its items are given back. The pauses
	// between them add up to about 3 s.
	transientTries = 6
	// probeTime is how long one item is kept, and tried, while the runner is
	// away. Then others have their turn: it may be to blame itself, or only this
	// worker's runner is away.
	probeTime = time.Minute
)

// plan is what is still to be run of one batch: groups of tasks, the next one
// last.
type plan struct {
	groups [][]*task
	// again is called with the tasks that are to run once more.
	again func([]*task)
	// ceiling is what the ceiling was before the batch.
	ceiling int
	pause   backoff
	tries   int
	// answered says that the runner has completed a run of the batch.
	answered bool
	// since is when transientTries was reached; tooSlow counts the items that
	// were too slow alone, with none between that was not.
	since   time.Time
	tooSlow int
}

func (w *Worker) newPlan(tasks []*task) *plan {
	return &plan{groups: [][]*task{tasks}, again: w.leaveUndecided, ceiling: w.batchLimit()}
}

// pop takes the next group, of at most limit tasks; nil when nothing is left.
func (p *plan) pop(limit int) []*task {
	if len(p.groups) == 0 {
		return nil
	}
	last := len(p.groups) - 1
	group := p.groups[last]
	p.groups = p.groups[:last]
	if len(group) > limit {
		p.groups = append(p.groups, group[limit:])
		group = group[:limit]
	}
	return group
}

// push schedules group to run next.
func (p *plan) push(group []*task) {
	p.again(group)
	p.groups = append(p.groups, group)
}

// halve schedules both halves of group.
func (p *plan) halve(group []*task) {
	p.push(group[len(group)/2:])
	p.push(group[:len(group)/2])
}

// alone schedules the tasks of group one by one.
func (p *plan) alone(group []*task) {
	for _, t := range slices.Backward(group) {
		p.push([]*task{t})
	}
}

// takeOutputs gives each task of group its result. An answer for other items
// than asked is an error, and nothing of it is used.
func (w *Worker) takeOutputs(ctx context.Context, group []*task, outputs []Output, plan *plan) error {
	byID := make(map[string]*task, len(group))
	for _, t := range group {
		byID[t.item.ItemID] = t
	}
	if len(outputs) != len(group) {
		return Failf(ClassProtocolError, "the runner gave %d results for %d items", len(outputs), len(group))
	}
	matched := make([]*task, len(outputs))
	for i, o := range outputs {
		matched[i] = byID[o.ItemID]
		if matched[i] == nil {
			return Failf(ClassProtocolError, "the runner gave a result for item %.80q, which it was not asked for or has answered already", o.ItemID)
		}
		delete(byID, o.ItemID)
	}
	done := make([]finished, 0, len(outputs))
	// undecided are the items whose error is treated as that of a whole run.
	var undecided []*task
	var why error
	for i, o := range outputs {
		t := matched[i]
		result, err := w.takeOutput(t, o, len(group) == 1)
		switch {
		case err == nil:
			done = append(done, finished{task: t, result: result})
		case len(group) == 1, isNobodysFault(err):
			undecided, why = append(undecided, t), err
		default:
			// It counts only when the item is alone.
			w.metrics.failure(ClassOf(err, ClassItemError))
			plan.push([]*task{t})
		}
	}
	if len(done) > 0 {
		plan.answered, plan.tries, plan.tooSlow, plan.pause = true, 0, 0, backoff{}
	}
	w.finish(done)
	if why != nil {
		w.afterFailure(ctx, plan, undecided, why)
	}
	return nil
}

// isNobodysFault reports whether err says nothing about the items it is for.
func isNobodysFault(err error) bool {
	class := ClassOf(err, ClassItemError)
	return class == ClassTransient || class == ClassDevice
}

// takeOutput returns t's result, or an error that is no verdict on t.
func (w *Worker) takeOutput(t *task, o Output, alone bool) (Result, error) {
	err := o.Err
	if err == nil && (!json.Valid(o.Value) || !utf8.Valid(o.Value)) {
		err = Failf(ClassInvalidOutput, "the runner's output is not JSON: %.80q", o.Value)
	}
	if err == nil {
		return success(o.Value), nil
	}
	class := ClassOf(err, ClassItemError)
	switch class {
	case ClassInvalidInput, ClassItemError:
	case ClassInvalidOutput:
		// The item alone once more: a neighbour may have spoilt it.
		if t.badOutputs++; t.badOutputs < 2 || !alone {
			return Result{}, err
		}
	default:
		return Result{}, err
	}
	return w.failure(t, class, Reason(err)), nil
}

// afterFailure decides what is done with a group whose run failed as a whole.
// It is the failure table of the design, in code.
func (w *Worker) afterFailure(ctx context.Context, plan *plan, group []*task, err error) {
	class := ClassOf(err, ClassBatchError)
	single := len(group) == 1
	w.deps.Log.WarnContext(ctx, "batch not completed", "items", len(group), "class", class, "error", err)
	if class != ClassDevice && w.isDraining() {
		// A runner that is being stopped along with the worker says nothing
		// about the items that it has.
		w.metrics.failure(class)
		plan.again(group)
		return
	}
	switch class {
	case ClassOutOfMemory:
		if single && w.cfg.InferConcurrency > 1 && !group[0].quarantined {
			// Another batch may have had the memory.
			w.metrics.failure(class)
			plan.again(group)
			plan.alone(w.quarantine(ctx, group, true))
			return
		}
		if single {
			// Its batches failed because of it, whatever their size.
			w.setCeiling(ctx, plan.ceiling)
			w.fail(group[0], class, Reason(err))
			return
		}
		w.metrics.failure(class)
		w.setCeiling(ctx, min(len(group)/2, w.batchLimit()))
		plan.halve(group)

	case ClassTransient:
		w.metrics.failure(class)
		w.afterTransient(ctx, plan, group, err)

	case ClassDevice:
		w.metrics.failure(class)
		cause := fmt.Errorf("%w: %s", ErrDevice, Reason(err))
		// At once, so that nothing more goes to the device.
		w.beginDrain(cause)
		w.stopIntake(cause)

	case ClassRunnerCrash:
		w.afterDeath(ctx, plan, group, err)

	case ClassProtocolError:
		if !single {
			w.metrics.failure(class)
			plan.alone(group)
			return
		}
		t := group[0]
		t.failures++
		w.againOrFail(plan, t, t.failures < w.cfg.MaxItemFailures, class, err)

	case ClassInvalidInput, ClassItemError:
		if single {
			w.fail(group[0], class, Reason(err))
			return
		}
		w.metrics.failure(class)
		plan.halve(group)

	default:
		if !single {
			w.metrics.failure(class)
			plan.halve(group)
			return
		}
		t := group[0]
		t.failures++
		w.againOrFail(plan, t, t.failures < w.cfg.MaxItemFailures, class, err)
	}
}

// afterDeath decides about a group whose runner died. Whose fault it was shows
// when each runs alone.
func (w *Worker) afterDeath(ctx context.Context, plan *plan, group []*task, err error) {
	w.metrics.failure(ClassRunnerCrash)
	if t := group[0]; !t.quarantined {
		plan.again(group)
		group = w.quarantine(ctx, group, true)
	} else {
		w.died(t, Reason(err))
		plan.again(group)
		if w.givenUp(t) {
			return
		}
	}
	plan.alone(group)
}

// afterTransient decides about a group whose runner was away, overloaded or too
// slow. None of that counts against an item.
func (w *Worker) afterTransient(ctx context.Context, plan *plan, group []*task, err error) {
	if errors.Is(err, errTooSlow) {
		// One that hangs is not to cost its neighbours each of their tries.
		if len(group) > 1 {
			plan.alone(group)
			return
		}
		w.giveBack(nackTransient, group...)
		if plan.tooSlow++; plan.tooSlow > 1 {
			w.trip(nackTransient)
		}
		return
	}
	plan.tries++
	switch {
	case plan.tries < transientTries:
	case len(group) > 1:
		// Perhaps one of them is to blame. Each gets a last try, at once.
		plan.tries = transientTries - 1
		plan.alone(group)
		return
	case len(plan.groups) > 0:
		plan.tries--
		w.giveBack(nackTransient, group...)
		return
	case plan.answered:
		w.giveBack(nackTransient, group...)
		return
	case plan.tries == transientTries:
		// The runner is away. This item is kept to find out when it is back.
		plan.since = time.Now()
		w.trip(nackTransient)
	case time.Since(plan.since) > probeTime:
		w.giveBack(nackTransient, group...)
		return
	}
	// Before the pause, so that a drain does not wait for its end.
	plan.push(group)
	// It came back: a worker that is killed in the pause is no death of it.
	if group[0].quarantined && !w.recordStarts(ctx, group, false) {
		return
	}
	plan.pause.wait(ctx)
}

func (w *Worker) againOrFail(plan *plan, t *task, again bool, class Class, err error) {
	if again {
		w.metrics.failure(class)
		plan.push([]*task{t})
		return
	}
	w.fail(t, class, Reason(err))
}

// batchLimit is the number of items that a batch may have now.
func (w *Worker) batchLimit() int { return int(w.ceiling.Load()) }

// setCeiling remembers, for the life of the process, the largest batch that
// fits the device's memory. Of two infer goroutines at once the last one wins;
// what that forgets is learned again.
func (w *Worker) setCeiling(ctx context.Context, limit int) {
	if w.ceiling.Swap(int64(limit)) != int64(limit) {
		w.metrics.ceiling.Record(ctx, int64(limit))
		w.deps.Log.WarnContext(ctx, "batch size changed: the device ran out of memory", "batch_limit", limit)
	}
}

// isDevice reports whether the worker stopped because of its device.
func isDevice(err error) bool { return errors.Is(err, ErrDevice) }
