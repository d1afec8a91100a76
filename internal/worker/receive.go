package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
)

const (
	// receiveTries is how often the intake may break in a row before it is
	// given up.
	receiveTries = 8
	// receiveHealthy is how long an intake must have lived for the count of
	// breaks to start anew.
	receiveHealthy = time.Minute
	// longestRest is the longest pause between two intakes while the runner or
	// the store is away.
	longestRest = time.Minute
)

// errTripped is the cause of the end of an intake for which there is no use.
var errTripped = errors.New("runner or store is away")

// receive keeps the intake going until ctx is done. A source that ends without
// being asked to is started again; one that ends again and again is broken. An
// error that may pass, such as a permission that has not reached every server
// yet, is given as long as the start. While runner or store are away there is no
// intake.
func (w *Worker) receive(ctx context.Context) error {
	var pause backoff
	rest := backoff{most: longestRest}
	broken := time.Now()
	for tries := 1; ; tries++ {
		start := time.Now()
		err := w.receiveOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if reason := w.trippedBy(); reason != "" {
			if w.working.Swap(false) {
				rest.next = 0
			}
			if !w.rest(ctx, reason, &rest) {
				return nil
			}
			tries, pause, broken = 0, backoff{}, time.Now()
			continue
		}
		if time.Since(start) > receiveHealthy {
			tries, pause, broken = 1, backoff{}, time.Now()
		}
		if tries >= receiveTries && (errors.Is(err, ErrPermanent) || time.Since(broken) >= w.cfg.LoadTimeout) {
			return fmt.Errorf("receive messages: the intake broke %d times in a row: %w", tries, endOfIntake(err))
		}
		w.deps.Log.WarnContext(ctx, "intake broke; starting it again", "error", endOfIntake(err))
		if !pause.wait(ctx) {
			return nil
		}
	}
}

// trip stops the intake because runner or store are away, and gives back what
// waits for them: others may have better luck. The intake goes on when what is
// still held is settled, after a rest.
func (w *Worker) trip(reason nackReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tripped = reason
	w.cutIntake(errTripped)
	for _, t := range w.held {
		if t.phase == waiting {
			w.settleLocked(t, Nack, reason)
		}
	}
}

func (w *Worker) trippedBy() nackReason {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tripped
}

// rest waits, longer each time until something works again. For a store it then
// waits for an answer: asking costs no delivery an attempt. It returns false
// when ctx is done.
func (w *Worker) rest(ctx context.Context, reason nackReason, pause *backoff) bool {
	w.deps.Log.WarnContext(ctx, "pulling paused", "reason", reason)
	for pause.wait(ctx) {
		if reason == nackStore {
			if err := w.askStore(ctx); err != nil {
				w.deps.Log.DebugContext(ctx, "store still away", "error", err)
				continue
			}
		}
		w.deps.Log.InfoContext(ctx, "pulling again")
		return true
	}
	return false
}

// askStore looks up an item that does not exist.
func (w *Worker) askStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.StoreTimeout)
	defer cancel()
	_, err := w.deps.Store.Lookup(ctx, []item.Key{{RunID: "none", ItemID: "none"}})
	return err
}

// endOfIntake names the end of an intake that nobody asked for.
func endOfIntake(err error) error {
	if err == nil {
		return fmt.Errorf("it ended without an error")
	}
	return err
}
