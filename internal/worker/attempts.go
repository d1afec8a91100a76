package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spotbatch/spotbatch/internal/item"
)

// An item that kills whoever runs it leaves no error behind, only a start that
// never came back. Such starts are evidence, and are kept in Attempts:
//
//   - A suspect, delivered infer.suspect_after times or more, has its start
//     recorded before its batch enters the model.
//   - An item in quarantine runs alone, and each such start is counted in its
//     record first. In quarantine are the items of a run whose runner died, and
//     those that the look-up finds a record of: nobody took it back.
//
// A record ends with the item's result, in the same commit. When an item is
// given back instead, what this worker recorded is taken back, and then the
// delivery is nacked. What is left is the work of a death: of the runner, or of
// the whole worker.

// evidence is what is known of a task's starts. Guarded by Worker.mu.
type evidence struct {
	// deaths counts the starts alone that did not come back, here and before.
	deaths int
	// found says that there was a record when this worker looked.
	found bool
	// written says that this worker has written a record, perhaps; recording,
	// that it is doing so now.
	written   bool
	recording bool
	// undoing counts the calls under way that take the record back.
	undoing int
	// lastError is how the last of the deaths looked from here.
	lastError string
}

// attempted reports whether there may be a record that has to end with t.
func (e evidence) attempted() bool { return e.found || e.written }

// suspected reports whether a start of t is recorded even when t is not alone.
func (w *Worker) suspected(t *task) bool { return t.attempt >= w.cfg.SuspectAfter }

// toRecord reports whether t's start is to be recorded before its batch enters
// the model. In quarantine that is done for each start.
func (w *Worker) toRecord(t *task) bool { return w.suspected(t) && !t.quarantined }

// convict puts the suspects among tasks that have a record into quarantine. It
// returns the tasks that go on; when the store does not answer, the suspects are
// given back.
func (w *Worker) convict(ctx context.Context, tasks []*task) []*task {
	if !slices.ContainsFunc(tasks, w.suspected) {
		return tasks
	}
	var suspects, others []*task
	for _, t := range tasks {
		if w.suspected(t) {
			suspects = append(suspects, t)
		} else {
			others = append(others, t)
		}
	}
	return append(others, w.quarantine(ctx, suspects, false)...)
}

// quarantine makes those of tasks that have a record, or all of them, run alone
// from now on, and counts on from the deaths that are recorded. It returns the
// tasks that are to run; when the store does not answer, they are given back.
func (w *Worker) quarantine(ctx context.Context, tasks []*task, all bool) []*task {
	if len(tasks) == 0 {
		return nil
	}
	keys := make([]item.Key, len(tasks))
	for i, t := range tasks {
		keys[i] = t.item.Key
	}
	var records map[item.Key]Attempt
	err := w.untilAnswered(ctx, func(ctx context.Context) (err error) {
		records, err = w.deps.Attempts.Read(ctx, keys)
		return err
	})
	if err != nil {
		w.storeFailed(ctx, "read earlier starts", err, tasks)
		return nil
	}
	var rest []*task
	for _, t := range tasks {
		record, found := records[t.item.Key]
		if found {
			w.learn(t, record)
		}
		t.quarantined = t.quarantined || found || all
		if !w.givenUp(t) {
			rest = append(rest, t)
		}
	}
	return rest
}

// learn counts the deaths that the store knows of t.
func (w *Worker) learn(t *task, record Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.evidence.found = true
	t.evidence.deaths, t.evidence.lastError = record.Started, record.Error
}

// died counts a start alone of t that did not come back.
func (w *Worker) died(t *task, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.evidence.deaths++
	t.evidence.lastError = reason
}

// givenUp makes t FAILED if it has been the death of too many, and reports
// whether it has.
func (w *Worker) givenUp(t *task) bool {
	w.mu.Lock()
	deaths, last := t.evidence.deaths, t.evidence.lastError
	w.mu.Unlock()
	if deaths < w.cfg.MaxItemCrashes {
		return false
	}
	if last == "" {
		last = "none, since the worker died, too"
	}
	w.fail(t, ClassRunnerCrash, fmt.Sprintf("the runner or its worker died %d times while the item was alone in the model; last error: %s", deaths, last))
	return true
}

// record lets batches with suspects pass once their starts are recorded.
func (w *Worker) record(ctx context.Context, in <-chan []*task, out chan<- []*task) error {
	for {
		select {
		case tasks := <-in:
			var suspects []*task
			for _, t := range tasks {
				if w.toRecord(t) {
					suspects = append(suspects, t)
				}
			}
			// When it fails, all that waits is given back.
			if w.recordStarts(ctx, suspects, false) && !send(ctx, out, tasks) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// recordStarts records that tasks are about to start, and that they do so
// alone. It returns false when that could not be recorded: they are given back.
func (w *Worker) recordStarts(ctx context.Context, tasks []*task, alone bool) bool {
	attempts := w.startsOf(tasks, alone)
	if len(attempts) == 0 {
		return true
	}
	err := w.untilAnswered(ctx, func(ctx context.Context) error { return w.deps.Attempts.Record(ctx, attempts) })
	if err != nil {
		w.storeFailed(ctx, "record starts", err, tasks)
	}
	w.recorded(tasks)
	return err == nil
}

// startsOf makes the records of tasks that are about to start. From here on a
// record has to be taken back if it comes to that.
func (w *Worker) startsOf(tasks []*task, alone bool) []Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	var attempts []Attempt
	for _, t := range tasks {
		if t.phase == settled {
			continue
		}
		t.evidence.written, t.evidence.recording = true, true
		a := w.recordOf(t)
		if alone {
			a.Started++
		}
		attempts = append(attempts, a)
	}
	return attempts
}

// recordOf is the record of t as it is while t is not in the model. w.mu is held.
func (w *Worker) recordOf(t *task) Attempt {
	return Attempt{Key: t.item.Key, Started: t.evidence.deaths, Worker: w.cfg.Name, Error: t.evidence.lastError}
}

// recorded ends the recording of tasks. What was settled meanwhile can be taken
// back only now.
func (w *Worker) recorded(tasks []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if !t.evidence.recording {
			continue
		}
		t.evidence.recording = false
		if t.phase == settled {
			w.takeBackLocked(t)
		}
	}
}

// takeBackLocked undoes the record of a settled task. The task stays held until
// that is done: whoever gets the message next, this worker included, would take
// the record for a death. w.mu is held.
func (w *Worker) takeBackLocked(t *task) {
	if t.evidence.recording {
		return // until recorded
	}
	w.undoLocked(t)
	if t.evidence.undoing == 0 {
		w.releaseLocked(t)
	}
}

// endLocked removes the record of an item whose result is stored, if it may have
// come back: it was being taken back when the result removed it. w.mu is held.
func (w *Worker) endLocked(t *task) {
	if t.evidence.undoing > 0 {
		w.queueLocked(takeBack{task: t, attempt: w.recordOf(t)})
	}
}

// undoLocked queues what is to be undone of t's record. w.mu is held.
func (w *Worker) undoLocked(t *task) {
	if t.evidence.written {
		w.queueLocked(takeBack{task: t, attempt: w.recordOf(t), keep: t.evidence.found || t.evidence.deaths > 0})
	}
}

// queueLocked queues a call for a record. w.mu is held. What finds no room is not
// undone.
func (w *Worker) queueLocked(undo takeBack) {
	select {
	case w.toTakeBack <- undo:
		undo.task.evidence.undoing++
	default:
	}
}

// releaseLocked lets the deliveries of a settled task go, unless they are gone.
// w.mu is held.
func (w *Worker) releaseLocked(t *task) {
	if w.held[t.item.Key] == t {
		delete(w.held, t.item.Key)
		close(t.done)
	}
}

// takeBack is a record that is to be as it was before this worker started the
// item: kept, or gone.
type takeBack struct {
	task    *task
	attempt Attempt
	keep    bool
}

// startTakeBacks starts what undoes records, beyond the end of the stages, which
// may have the last ones.
func (w *Worker) startTakeBacks(ctx context.Context) {
	done, last := make(chan struct{}), make(chan struct{})
	w.takenBack, w.endTakeBacks = done, sync.OnceFunc(func() { close(last) })
	go func() {
		defer close(done)
		w.takeBacks(context.WithoutCancel(ctx), last)
	}()
}

// takeBacks undoes records, until last is closed and nothing is left.
func (w *Worker) takeBacks(ctx context.Context, last <-chan struct{}) {
	for {
		select {
		case first := <-w.toTakeBack:
			w.undo(ctx, gatherMore(w.toTakeBack, []takeBack{first}, lookupKeys))
		case <-last:
			rest := gatherMore(w.toTakeBack, nil, lookupKeys)
			if len(rest) == 0 {
				return
			}
			w.undo(ctx, rest)
		}
	}
}

// undo makes one call for records, and then lets their tasks go. Of two records
// of one item the last one holds.
func (w *Worker) undo(ctx context.Context, list []takeBack) {
	last := make(map[item.Key]takeBack, len(list))
	for _, u := range list {
		last[u.attempt.Key] = u
	}
	var kept []Attempt
	var gone []item.Key
	for key, u := range last {
		if u.keep {
			kept = append(kept, u.attempt)
		} else {
			gone = append(gone, key)
		}
	}
	err := w.untilAnswered(ctx, func(ctx context.Context) error {
		return w.deps.Attempts.TakeBack(ctx, w.cfg.Name, kept, gone)
	})
	if err != nil {
		w.deps.Log.WarnContext(ctx, "records of starts not taken back; the items run alone next time", "items", len(last), "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range list {
		if u.task.evidence.undoing--; u.task.evidence.undoing == 0 && u.task.phase == settled {
			w.releaseLocked(u.task)
		}
	}
}

// untilAnswered calls the store until it answers or StoreTimeout is over.
func (w *Worker) untilAnswered(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.StoreTimeout)
	defer cancel()
	var pause backoff
	for {
		err := call(ctx)
		w.progress.made()
		if err == nil || !pause.wait(ctx) {
			return err
		}
	}
}

// storeFailed gives tasks back because the store did not do something for them
// in time. At the hard stop it leaves them to the drain.
func (w *Worker) storeFailed(ctx context.Context, what string, err error, tasks []*task) {
	if ctx.Err() != nil {
		return
	}
	w.metrics.failure(ClassStore)
	w.deps.Log.WarnContext(ctx, "the store did not answer in time; items given back", "doing", what, "items", len(tasks), "error", err)
	w.giveBack(nackStore, tasks...)
	w.trip(nackStore)
}

// living returns those of tasks that are not settled.
func (w *Worker) living(tasks []*task) []*task {
	rest := tasks[:0]
	for _, t := range tasks {
		if w.alive(t) {
			rest = append(rest, t)
		}
	}
	return rest
}
