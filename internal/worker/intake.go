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
// not while it drains, and not while its intake is broken. It is safe for
// concurrent use.
func (w *Worker) Ready() bool {
	return w.ready.Load() && !w.intakeBroken.Load() && w.deps.Connection.Connected()
}

// receiveOnce is one call of Receive.
func (w *Worker) receiveOnce(ctx context.Context) error {
	proven := time.AfterFunc(intakeProven, func() { w.intakeBroken.Store(false) })
	defer proven.Stop()
	err := w.deps.Source.Receive(ctx, w.deliver)
	w.intakeBroken.Store(true)
	return err
}

// idlePoll is how often readiness is looked at while the worker waits for the
// end of its idle time.
const idlePoll = time.Second

// exitWhenIdle stops the intake once there was no work for ExitWhenIdle. While
// the worker is not ready nobody knows whether there is work, so that such time
// does not count.
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
			w.stopIntake(fmt.Errorf("no work for %s (pull.exit_when_idle)", limit))
			return
		}
		if !sleep(intake, min(left, idlePoll)) {
			return
		}
	}
}
