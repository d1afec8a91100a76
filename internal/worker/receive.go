package worker

import (
	"context"
	"fmt"
	"time"
)

const (
	// receiveTries is how often the intake may break in a row.
	receiveTries = 8
	// receiveHealthy is how long an intake must have lived for the count of
	// breaks to start anew.
	receiveHealthy = time.Minute
)

// receive keeps the intake going until ctx is done. A source that ends without
// being asked to is started again; one that ends again and again is broken.
func (w *Worker) receive(ctx context.Context) error {
	var pause backoff
	for tries := 1; ; tries++ {
		start := time.Now()
		err := w.receiveOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(start) > receiveHealthy {
			tries, pause = 1, backoff{}
		}
		if tries >= receiveTries {
			return fmt.Errorf("receive messages: the intake broke %d times in a row: %w", tries, endOfIntake(err))
		}
		w.deps.Log.WarnContext(ctx, "intake broke; starting it again", "error", endOfIntake(err))
		if !pause.wait(ctx) {
			return nil
		}
	}
}

// endOfIntake names the end of an intake that nobody asked for.
func endOfIntake(err error) error {
	if err == nil {
		return fmt.Errorf("it ended without an error")
	}
	return err
}
