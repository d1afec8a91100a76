package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/spotbatch/spotbatch/internal/item"
)

// errStopped is the cause of a stop from outside.
var errStopped = errors.New("asked to stop")

// closeTime is how long the runner may take to close once everything is
// settled, and the stages to notice. A runner that is stuck in native code is
// left behind; the process ends soon.
const closeTime = 1500 * time.Millisecond

// Worker is the pipeline of one process. Make it with New and call Run once.
type Worker struct {
	cfg     Config
	deps    Deps
	tracer  trace.Tracer
	metrics *metrics
	pace    pace

	// intake is done from the stop on, work is the context of the pipeline, and
	// info is what the runner said. They are set before the first delivery and
	// not changed after.
	intake context.Context
	work   context.Context
	info   Info

	// toLookup, toCommit and toTakeBack have room for every task that can be
	// held.
	toLookup   chan *task
	toCommit   chan []finished
	toTakeBack chan takeBack

	// places are those of the model, one for each concurrent batch.
	places *semaphore.Weighted
	// ceiling is the largest batch that is tried.
	ceiling  atomic.Int64
	progress progress
	started  atomic.Bool
	ready    atomic.Bool
	// intakeBroken is true from the end of an intake that nobody asked for
	// until another one works.
	intakeBroken atomic.Bool
	// stopIntake stops the intake for a cause of the worker's own.
	stopIntake context.CancelCauseFunc
	// endTakeBacks says that no more is to be taken back; takenBack is closed when
	// the last is.
	endTakeBacks func()
	takenBack    <-chan struct{}
	// working is set whenever a result is stored.
	working atomic.Bool

	mu sync.Mutex
	// held are the tasks that are not settled, or whose records are still to be
	// taken back, by item. Guarded by mu.
	held map[item.Key]*task
	// phases counts them by phase. Guarded by mu.
	phases phaseCounts
	// draining is true from the stop of the intake on. Guarded by mu.
	draining bool
	// tripped says why there is no intake at the moment; empty when there is
	// one, which cutIntake ends. Guarded by mu.
	tripped   nackReason
	cutIntake context.CancelCauseFunc
}

// New makes a worker. It does nothing until Run.
func New(cfg Config, deps Deps) (*Worker, error) {
	deps = deps.withDefaults()
	w := &Worker{
		cfg:    cfg,
		deps:   deps,
		tracer: deps.Tracer.Tracer(scope),
		// A task that was given back can still be in a queue while others take
		// its place; twice the room keeps them from waiting for it.
		toLookup:   make(chan *task, 2*cfg.MaxHeld),
		toCommit:   make(chan []finished, 2*cfg.MaxHeld),
		toTakeBack: make(chan takeBack, 2*cfg.MaxHeld),
		places:     semaphore.NewWeighted(int64(cfg.InferConcurrency)),
		held:       make(map[item.Key]*task, cfg.MaxHeld),
	}
	var err error
	if w.metrics, err = newMetrics(deps.Meter, deps.Runner, w.count); err != nil {
		return nil, err
	}
	return w, nil
}

// Run waits for what it needs, loads the model and works until ctx is done or
// there was no work for ExitWhenIdle, then drains and returns nil. It returns an
// error when something is not there in time or never will be, when the source
// stays broken, or when the device is broken (ErrDevice).
//
// After ctx is done Run returns within HardStop and the time that the source
// needs to send what was settled, plus at most 1.5 s; during a load, at once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		w.closeRunner(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return w.serve(ctx)
}

// serve is the life of a worker with a loaded model.
func (w *Worker) serve(ctx context.Context) error {
	intake, stopIntake := context.WithCancelCause(ctx)
	w.intake, w.stopIntake = intake, stopIntake
	defer stopIntake(nil)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	w.work = work

	stages, stageCtx := errgroup.WithContext(work)
	w.pipeline(stageCtx, stages)
	w.startTakeBacks(ctx)
	defer w.endTakeBacks()

	received := make(chan struct{})
	var receiveErr error
	stages.Go(func() error {
		defer close(received)
		receiveErr = w.receive(intake)
		stopIntake(receiveErr)
		return nil
	})
	stages.Go(func() error { w.exitWhenIdle(intake); return nil })
	w.ready.Store(true)
	<-intake.Done()
	w.ready.Store(false)

	cause := context.Cause(intake)
	if ctx.Err() != nil {
		cause = errStopped
	}
	if !w.drain(ctx, cause, received) {
		// A runner that does not come back holds nobody's lease any more.
		w.deps.Log.WarnContext(ctx, "drain reached its limit; everything left was given back")
	}
	stopWork()
	w.stopStages(ctx, stages, received)
	switch {
	case isDevice(cause):
		return cause
	case ctx.Err() != nil:
		return nil
	}
	return receiveErr
}

// pipeline starts the stages. This is the path of an item; it comes in
// through handle and goes out through settle.
func (w *Worker) pipeline(ctx context.Context, stages *errgroup.Group) {
	looked := make(chan *task)
	loaded := make(chan *task)
	suspects := make(chan []*task)
	batches := make(chan []*task)
	stages.Go(func() error { return w.lookup(ctx, w.toLookup, looked) })
	for range loaders {
		stages.Go(func() error { return w.load(ctx, looked, loaded) })
	}
	stages.Go(func() error { return w.batch(ctx, loaded, batches, suspects) })
	stages.Go(func() error { return w.record(ctx, suspects, batches) })
	for range w.cfg.InferConcurrency {
		stages.Go(func() error { return w.infer(ctx, batches) })
	}
	stages.Go(func() error { return w.commit(ctx, w.toCommit) })
}

// stopStages closes the runner and waits for the stages, for the source, which
// is still sending what was settled last, and for the last records that are
// taken back. What is stuck is not waited for.
func (w *Worker) stopStages(ctx context.Context, stages *errgroup.Group, received <-chan struct{}) {
	limit := time.Now().Add(closeTime)
	w.closeRunner(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := stages.Wait(); err != nil {
			w.deps.Log.ErrorContext(ctx, "stage ended with an error", "error", err)
		}
		w.endTakeBacks()
	}()
	for _, done := range []<-chan struct{}{received, stopped, w.takenBack} {
		if !within(time.Until(limit), done) {
			w.deps.Log.WarnContext(ctx, "runner, source or store still busy; left behind")
			return
		}
	}
}

// closeRunner closes the runner, for at most closeTime.
func (w *Worker) closeRunner(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := w.deps.Runner.Close(); err != nil {
			w.deps.Log.WarnContext(ctx, "runner not closed cleanly", "error", err)
		}
	}()
	if !within(closeTime, closed) {
		w.deps.Log.WarnContext(ctx, "runner still closing; left behind")
	}
}
