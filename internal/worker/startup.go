package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrPermanent is in the chain of an error that comes again at every try: the
// configuration, or what it names, has to change first.
var ErrPermanent = errors.New("to try again cannot help")

// permanent is ErrPermanent and keeps the text of its cause.
type permanent struct{ error }

func (e permanent) Unwrap() error        { return e.error }
func (e permanent) Is(target error) bool { return target == ErrPermanent }

// Permanent marks err as ErrPermanent without a change of its text. A nil err
// stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// Check asks whether something is there that the worker cannot work without,
// such as its subscription. It is tried until it succeeds, its error is
// ErrPermanent, or LoadTimeout is over. Try returns soon after its context is
// done, and by itself when it gets no answer: each try is one line of the log.
type Check struct {
	Name string
	Try  func(context.Context) error
}

// start makes everything ready that must be before the first delivery: the
// checks and the model, all at once. Nodes and credentials are often younger
// than the pod, so that what fails at first is tried again. LoadTimeout bounds
// all of it.
func (w *Worker) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.LoadTimeout,
		fmt.Errorf("not ready within model.start_timeout (%s)", w.cfg.LoadTimeout))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, check := range w.deps.Checks {
		group.Go(func() error { return w.persist(ctx, check) })
	}
	group.Go(func() error { return w.loadModel(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	w.started.Store(true)
	return nil
}

// Started reports whether the start is over, so that deliveries may be held. It
// is safe for concurrent use.
func (w *Worker) Started() bool { return w.started.Load() }

// persist tries c until it succeeds.
func (w *Worker) persist(ctx context.Context, c Check) error {
	var pause backoff
	var last error
	for {
		err := c.Try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return endOfTries(ctx, c.Name, cmp.Or(last, err))
		case errors.Is(err, ErrPermanent):
			return err
		}
		last = err
		next := pause.step()
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "not ready yet; trying again", slog.String("what", c.Name),
			slog.String("error", err.Error()), slog.String("next_try_in", next.Round(time.Millisecond).String()))
		if !sleep(ctx, next) {
			return endOfTries(ctx, c.Name, last)
		}
	}
}

// endOfTries says why no more tries are made, and what the last one met.
func endOfTries(ctx context.Context, what string, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(last, cause) {
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w; the last try: %w", what, cause, last)
}

// loadModel loads the model and takes over what it says of itself.
func (w *Worker) loadModel(ctx context.Context) error {
	start := time.Now()
	w.deps.Log.InfoContext(ctx, "loading model")
	if err := w.persist(ctx, Check{Name: "model", Try: w.tryLoad}); err != nil {
		return err
	}
	limit := w.cfg.BatchSize
	if w.info.MaxBatch > 0 {
		limit = min(limit, w.info.MaxBatch)
	}
	w.ceiling.Store(int64(limit))
	w.deps.Log.InfoContext(ctx, "model ready", "model_version", w.info.ModelVersion, "batch_limit", limit,
		"load_seconds", time.Since(start).Seconds())
	return nil
}

// tryLoad is one try. Native code cannot be interrupted: when ctx is done
// first, the load is left behind.
func (w *Worker) tryLoad(ctx context.Context) error {
	type loaded struct {
		info Info
		err  error
	}
	result := make(chan loaded, 1)
	go func() {
		info, err := w.deps.Runner.Load(ctx)
		result <- loaded{info, err}
	}()
	select {
	case l := <-result:
		if ClassOf(l.err, "") == ClassDevice {
			// Only another process, perhaps on another node, finds a device.
			return Permanent(fmt.Errorf("%w: %s", ErrDevice, Reason(l.err)))
		}
		if l.err != nil {
			return fmt.Errorf("load model: %w", l.err)
		}
		w.info = l.info
		return Permanent(l.info.check())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
