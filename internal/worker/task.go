package worker

import (
	"context"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
)

// phase is where a task is, as far as the drain cares.
type phase int

const (
	// waiting: not in the model, perhaps between two tries. The drain gives it
	// back at once.
	waiting phase = iota
	// inModel: in a batch that the runner has.
	inModel
	// committing: its result is known and on its way to the store.
	committing
	// settled: its settlement is decided; nothing more may happen to it.
	settled
)

// phaseCounts is the number of tasks in each phase. That of settled means
// nothing.
type phaseCounts [settled + 1]int64

// task is an item on its way through the pipeline.
type task struct {
	item  item.Item
	input Input
	// ctx carries the trace of the message.
	ctx context.Context
	// attempt counts the deliveries of the message, as far as the service knows.
	attempt int
	// loaded is when the item became ready for a batch.
	loaded time.Time
	// quarantined says that the item has to be alone in the model, each start
	// recorded first. Owned by the stage that holds the task.
	quarantined bool

	// failures and badOutputs count what happened while the item was alone in
	// the model. Owned by the infer goroutine that holds the task.
	failures   int
	badOutputs int
	// done is closed when the task is settled and out of Worker.held; settlement
	// and reason, which says why it is not Ack, may be read then.
	done       chan struct{}
	settlement Settlement
	reason     nackReason

	// Guarded by Worker.mu. waiters is the number of deliveries that wait for
	// the settlement; modelTime is the item's share of all model time spent on
	// it so far.
	waiters   int
	phase     phase
	flight    *flight
	modelTime time.Duration
	evidence  evidence
}

// flight is one stay of a group of tasks in the model.
type flight struct {
	started time.Time
}

// finished is a task with its result, on its way to the store.
type finished struct {
	task   *task
	result Result
}

func newTask(ctx context.Context, it item.Item, attempt int) *task {
	return &task{item: it, ctx: ctx, attempt: attempt, done: make(chan struct{})}
}

// admit takes a delivery of t's item into the worker. It returns the task that
// the delivery waits for: t, unless the worker has the item already; nil, with
// the reason, when the worker takes none.
func (w *Worker) admit(t *task) (*task, nackReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return nil, nackDrain
	}
	if w.tripped != "" {
		return nil, w.tripped
	}
	if twin := w.held[t.item.Key]; twin != nil {
		t = twin
	} else {
		w.held[t.item.Key] = t
		w.phases[waiting]++
	}
	t.waiters++
	return t, ""
}

func (w *Worker) moveLocked(t *task, to phase) {
	w.phases[t.phase]--
	w.phases[to]++
	t.phase = to
}

// count returns how many tasks are in each phase.
func (w *Worker) count() phaseCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phases
}

// leave ends the wait of a delivery whose lease is lost. A task that nobody
// waits for any more is abandoned; what comes until its record is taken back is
// nacked. One that is in the model stays: the next delivery shares the run, and
// if none comes here its row saves another worker a run.
func (w *Worker) leave(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.waiters--
	if t.phase == waiting {
		w.unwantedLocked(t)
	} else if t.waiters == 0 && t.phase != settled {
		w.undoLocked(t)
	}
}

// unwantedLocked abandons t if nobody waits for it any more, and reports whether
// it is settled. w.mu is held.
func (w *Worker) unwantedLocked(t *task) bool {
	if t.waiters == 0 {
		w.settleLocked(t, Abandon, nackStore)
	}
	return t.phase == settled
}

// unwanted is unwantedLocked.
func (w *Worker) unwanted(t *task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unwantedLocked(t)
}

// settle decides what becomes of t's deliveries, unless that is decided already.
// It reports whether it was this call that decided. reason is empty for Ack.
func (w *Worker) settle(t *task, s Settlement, reason nackReason) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settleLocked(t, s, reason)
}

func (w *Worker) settleLocked(t *task, s Settlement, reason nackReason) bool {
	if t.phase == settled {
		return false
	}
	w.moveLocked(t, settled)
	t.flight = nil
	t.settlement = s
	t.reason = reason
	if s != Ack {
		w.metrics.device.add(useLost, t.modelTime)
		w.takeBackLocked(t)
		return true
	}
	w.endLocked(t)
	w.releaseLocked(t)
	return true
}

// giveBack nacks tasks.
func (w *Worker) giveBack(reason nackReason, tasks ...*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		w.settleLocked(t, Nack, reason)
	}
}

// alive reports whether t is not settled yet.
func (w *Worker) alive(t *task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.phase != settled
}

// enterModel marks tasks as being in the model and returns those that may go
// there: none that is settled, as by the drain every one that waited is.
func (w *Worker) enterModel(tasks []*task) []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &flight{started: time.Now()}
	live := make([]*task, 0, len(tasks))
	for _, t := range tasks {
		if t.phase == settled {
			continue
		}
		w.moveLocked(t, inModel)
		t.flight = f
		live = append(live, t)
	}
	return live
}

// leaveUndecided marks tasks that are to enter the model again: until then no
// drain waits for them. While draining they are given back, and those that
// nobody waits for are abandoned.
func (w *Worker) leaveUndecided(tasks []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		switch {
		case w.unwantedLocked(t):
		case w.draining:
			w.settleLocked(t, Nack, nackDrain)
		default:
			w.moveLocked(t, waiting)
			t.flight = nil
		}
	}
}

// spend books model time on tasks, each its share.
func (w *Worker) spend(tasks []*task, took time.Duration) {
	share := took / time.Duration(len(tasks))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if t.phase == settled {
			w.metrics.device.add(useLost, share)
			continue
		}
		t.modelTime += share
	}
}

// leaveModel marks t as on its way to the store, and returns the model time
// spent on it and whether it may have a record in Attempts. ok is false when its
// result serves nobody: t was settled meanwhile, or it failed and nobody waits
// for it. The next one may do better.
func (w *Worker) leaveModel(t *task, status Status) (spent time.Duration, attempted, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.phase == settled || status == StatusFailed && w.unwantedLocked(t) {
		return 0, false, false
	}
	w.moveLocked(t, committing)
	t.flight = nil
	return t.modelTime, t.evidence.attempted(), true
}
