package worker

import (
	"context"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/crash"
)

// pace keeps moving averages, by which the drain guesses what can still
// finish.
type pace struct {
	infer  average
	commit average
}

// average is an exponentially weighted moving average of durations; 0 before
// the first. It is safe for concurrent use.
type average struct {
	mu    sync.Mutex
	value time.Duration
}

// averageWeight is the share of the newest value: the last ten or so count.
const averageWeight = 0.2

func (a *average) add(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.value == 0 {
		a.value = d
		return
	}
	a.value += time.Duration(averageWeight * float64(d-a.value))
}

func (a *average) get() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value
}

// beginDrain gives back everything that is not inside the model, and the
// batches inside it that are not expected to finish before the hard stop.
// Results on their way to the store are left to get there. With a broken
// device nothing inside the model is waited for.
func (w *Worker) beginDrain(cause error) {
	reason := nackDrain
	if isDevice(cause) {
		reason = nackDevice
	}
	hardStop := time.Now().Add(w.cfg.HardStop)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	for _, t := range w.held {
		switch t.phase {
		case waiting:
			w.settleLocked(t, Nack, reason)
		case inModel:
			if reason == nackDevice || w.expectedDone(t.flight).After(hardStop) {
				w.settleLocked(t, Nack, reason)
			}
		case committing, settled:
		}
	}
}

func (w *Worker) isDraining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// expectedDone guesses when the results of a batch will be stored. One that
// has already taken longer than the average is given as long again.
func (w *Worker) expectedDone(f *flight) time.Time {
	now := time.Now()
	inferred := f.started.Add(w.pace.infer.get())
	if inferred.Before(now) {
		inferred = now.Add(now.Sub(f.started))
	}
	return inferred.Add(w.pace.commit.get())
}

// hardStop gives back everything that is left, whatever model and store do.
func (w *Worker) hardStop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.held {
		w.settleLocked(t, Nack, nackDrain)
	}
}

// takeBackPatience is how long a drain waits with nacks until their records are
// taken back, lastPatience how long at the hard stop. That is one commit; a
// store that takes longer is away.
const (
	takeBackPatience = time.Second
	lastPatience     = 250 * time.Millisecond
)

// stopWaiting lets the nacks go that wait for that.
func (w *Worker) stopWaiting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.held {
		if t.phase == settled {
			w.releaseLocked(t)
		}
	}
}

// drain runs from the stop of the intake until received says that every
// delivery is settled, at most until the hard stop. It reports whether
// everything was settled before that.
func (w *Worker) drain(ctx context.Context, cause error, received <-chan struct{}) bool {
	crash.At(crash.DuringDrain)
	start := time.Now()
	w.beginDrain(cause)
	kept := w.count()
	w.deps.Log.InfoContext(ctx, "draining", "cause", cause.Error(), "kept", kept[inModel]+kept[committing])

	patience := time.AfterFunc(takeBackPatience, w.stopWaiting)
	defer patience.Stop()
	limit := time.NewTimer(w.cfg.HardStop)
	defer limit.Stop()
	select {
	case <-received:
		w.metrics.drained(time.Since(start), true)
		return true
	case <-limit.C:
	}
	w.hardStop()
	time.AfterFunc(lastPatience, w.stopWaiting)
	w.metrics.drained(time.Since(start), false)
	return false
}
