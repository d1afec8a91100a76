package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// transientTries is how often a batch is tried while its runner is
// unreachable or overloaded, before its items are given back. With the pauses
// between them that is about 10 s.
const transientTries = 6

// plan is what is still to be run of one batch: groups of tasks, the next one
// last.
type plan struct {
	groups [][]*task
	pause  backoff
	tries  int
}

func newPlan(tasks []*task) *plan { return &plan{groups: [][]*task{tasks}} }

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
func (p *plan) push(group []*task) { p.groups = append(p.groups, group) }

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
func (w *Worker) takeOutputs(group []*task, outputs []Output, plan *plan) error {
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
	plan.tries = 0
	done := make([]finished, 0, len(outputs))
	for i, o := range outputs {
		if result, ok := w.takeOutput(matched[i], o, len(group) == 1, plan); ok {
			done = append(done, finished{task: matched[i], result: result})
		}
	}
	w.finish(done)
	return nil
}

// takeOutput returns t's result, or schedules one more run of its own.
func (w *Worker) takeOutput(t *task, o Output, alone bool, plan *plan) (Result, bool) {
	err := o.Err
	if err == nil && (!json.Valid(o.Value) || !utf8.Valid(o.Value)) {
		err = Failf(ClassInvalidOutput, "the runner's output is not JSON: %.80q", o.Value)
	}
	if err == nil {
		return success(o.Value), true
	}
	class := ClassOf(err, ClassItemError)
	if class == ClassInvalidOutput {
		// The item alone once more: a neighbour may have spoilt it.
		if t.badOutputs++; t.badOutputs < 2 || !alone {
			w.metrics.failure(class)
			plan.push([]*task{t})
			return Result{}, false
		}
	}
	return w.failure(t, class, Reason(err)), true
}

// afterFailure decides what is done with a group whose run failed as a whole.
// It is the failure table of the design, in code.
func (w *Worker) afterFailure(ctx context.Context, plan *plan, group []*task, err error) {
	class := ClassOf(err, ClassBatchError)
	single := len(group) == 1
	w.deps.Log.WarnContext(ctx, "batch not completed", "items", len(group), "class", class, "error", err)
	switch class {
	case ClassOutOfMemory:
		if single {
			w.fail(group[0], class, Reason(err))
			return
		}
		w.metrics.failure(class)
		w.lowerCeiling(ctx, len(group)/2)
		plan.halve(group)

	case ClassTransient:
		w.metrics.failure(class)
		if plan.tries++; plan.tries >= transientTries || !plan.pause.wait(ctx) {
			w.giveBack(nackTransient, group...)
			return
		}
		plan.push(group)

	case ClassDevice:
		w.metrics.failure(class)
		w.giveBack(nackDevice, group...)
		w.stopIntake(fmt.Errorf("%w: %s", ErrDevice, Reason(err)))

	case ClassRunnerCrash:
		if !single {
			// Whose fault it was shows when each runs alone.
			w.metrics.failure(class)
			plan.alone(group)
			return
		}
		t := group[0]
		t.crashes++
		w.againOrFail(plan, t, t.crashes < w.cfg.MaxItemCrashes, class, err)

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

// lowerCeiling remembers for the life of the process that larger batches do
// not fit the device.
func (w *Worker) lowerCeiling(ctx context.Context, limit int) {
	for {
		now := w.ceiling.Load()
		if int64(limit) >= now {
			return
		}
		if w.ceiling.CompareAndSwap(now, int64(limit)) {
			w.metrics.ceiling.Record(ctx, int64(limit))
			w.deps.Log.WarnContext(ctx, "batch size lowered: the device ran out of memory", "batch_limit", limit)
			return
		}
	}
}

// isDevice reports whether the worker stopped because of its device.
func isDevice(err error) bool { return errors.Is(err, ErrDevice) }
