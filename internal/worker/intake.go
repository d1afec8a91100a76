package worker

import (
	"context"
	"fmt"
	"time"
)

// intakeProven is how long an intake has to live without a delivery before it
// is taken for whole after a break.
const intakeProven = 10 * time.Second

// Ready reports whether the model is loaded and the worker takes deliveries:
// not while it drains, while its intake is broken, or while runner or store are
// away. It is safe for concurrent use.
func (w *Worker) Ready() bool {
	return w.ready.Load() && !w.intakeBroken.Load() && w.trippedBy() == "" && w.deps.Connection.Connected()
}

// receiveOnce is one call of Receive. It ends with ctx, when it breaks, or when
// it is tripped.
func (w *Worker) receiveOnce(ctx context.Context) error {
	intake, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w.mu.Lock()
	w.tripped, w.cutIntake = "", cut
	w.mu.Unlock()
	proven := time.AfterFunc(intakeProven, func() { w.intakeBroken.Store(false) })
	defer proven.Stop()
	err := w.deps.Source.Receive(intake, w.deliver)
	w.intakeBroken.Store(intake.Err() == nil || ctx.Err() != nil)
	return err
}

// idlePoll is how often readiness is looked at while the worker waits for the
// end of its idle time.
const idlePoll = time.Second

// exitWhenIdle stops the intake once there was no work for ExitWhenIdle. While
// the worker is not ready nobody knows whether there is work, so that such time
// does not count. A line that is silently dead looks like one without work: the
// checks are made once more.
func (w *Worker) exitWhenIdle(intake context.Context) {
	limit := w.cfg.ExitWhenIdle
	if limit == 0 {
		return
	}
	from := time.Now()
	for {
		now := time.Now()
		if last := w.progress.lastWork(); last.After(from) {
			from = last
		}
		if !w.Ready() {
			from = now
		}
		left := limit - now.Sub(from)
		if left <= 0 {
			if err := w.checkAgain(intake); err != nil {
				w.deps.Log.WarnContext(intake, "no work, but not all is there; waiting on", "error", err)
				from = time.Now()
				continue
			}
			if w.progress.lastWork().After(now) {
				continue
			}
			w.stopIntake(fmt.Errorf("no work for %s (pull.exit_when_idle)", limit))
			return
		}
		if !sleep(intake, min(left, idlePoll)) {
			return
		}
	}
}

// checkAgain makes each check once.
func (w *Worker) checkAgain(ctx context.Context) error {
	for _, c := range w.deps.Checks {
		if err := c.Try(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}
