package onnx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// closeWait is how long Close waits for what is inside the model. The terminate
// flag is seen between two operators, which is a matter of milliseconds unless
// one operator is the whole model; a drain has no more time than this to give.
const closeWait = time.Second

// warmUpRounds is how often each batch of the warm-up runs: the library plans
// its memory in the first run and takes more for the second.
const warmUpRounds = 2

// ErrClosed is in the chain of Run's error after Close.
var ErrClosed = errors.New("the model is closed")

// Runner runs one ONNX model. It implements worker.Runner.
type Runner struct {
	cfg         config.Model
	batch       int
	concurrency int
	library     library
	gate        *gate
	// life ends with Close; every run ends with it.
	life context.Context
	end  context.CancelFunc

	// model is nil until Load has succeeded.
	model atomic.Pointer[model]
}

var _ worker.Runner = (*Runner)(nil)

// model is what Load makes.
type model struct {
	plan   *plan
	engine engine
}

// New returns a runner of the model of cfg; cfg must be valid. It reads and loads
// nothing yet. maxBatch is the largest batch that will be asked for and
// concurrency the number of calls of Run at once: the warm-up runs that much, so
// that the memory for it is known to be there. A maxBatch of 0 or less stands for
// 1, and so does a concurrency.
func New(cfg config.Model, maxBatch, concurrency int) (*Runner, error) {
	lib, err := openLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	return newRunner(cfg, maxBatch, concurrency, lib), nil
}

func newRunner(cfg config.Model, maxBatch, concurrency int, lib library) *Runner {
	life, end := context.WithCancel(context.Background())
	r := &Runner{cfg: cfg, batch: max(maxBatch, 1), concurrency: max(concurrency, 1), library: lib, life: life, end: end}
	r.gate = newGate(r.free)
	return r
}

// Load implements worker.Runner. The library cannot be interrupted while it
// makes a session, so that Load may return before it: what comes of it then is
// freed as soon as it is there.
func (r *Runner) Load(ctx context.Context) (worker.Info, error) {
	if !r.gate.enter() {
		return worker.Info{}, fmt.Errorf("load model: %w", ErrClosed)
	}
	type answer struct {
		info worker.Info
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		defer r.gate.leave()
		info, err := r.load(ctx)
		answered <- answer{info, err}
	}()
	select {
	case a := <-answered:
		return a.info, a.err
	case <-ctx.Done():
		return worker.Info{}, fmt.Errorf("load model: %w", context.Cause(ctx))
	}
}

func (r *Runner) load(ctx context.Context) (worker.Info, error) {
	labels, err := readLabels(r.cfg.Output)
	if err != nil {
		return worker.Info{}, worker.Permanent(err)
	}
	if err := checkFile(r.cfg.Path); err != nil {
		return worker.Info{}, worker.Permanent(err)
	}
	version, err := version(ctx, r.cfg, labels)
	if err != nil {
		return worker.Info{}, err
	}
	inputs, outputs, err := r.library.inspect(r.cfg)
	if err != nil {
		return worker.Info{}, err
	}
	p, err := newPlan(r.cfg, labels, inputs, outputs)
	if err != nil {
		return worker.Info{}, worker.Permanent(fmt.Errorf("model %s does not fit the configuration: %w", r.cfg.Path, err))
	}
	e, err := r.library.open(r.cfg, p.input, p.output)
	if err != nil {
		return worker.Info{}, err
	}
	m := &model{plan: p, engine: e}
	limit, err := r.warmUp(ctx, m)
	if err != nil {
		return worker.Info{}, errors.Join(err, e.close())
	}
	r.model.Store(m)
	return worker.Info{ModelVersion: version, MaxBatch: limit}, nil
}

// warmUp runs the largest batch, as many at once as there will be, and returns
// the largest batch that the model takes; 0 means any.
func (r *Runner) warmUp(ctx context.Context, m *model) (int, error) {
	limit := m.plan.maxBatch(r.cfg.MaxBatch)
	size := r.batch
	if limit > 0 {
		size = min(size, limit)
	}
	for {
		err := r.tryBatches(ctx, m, size)
		switch {
		case err == nil:
			return limit, nil
		case worker.ClassOf(err, "") == worker.ClassBatchError:
			return 0, worker.Permanent(fmt.Errorf("warm up model %s with a batch of %d: %w", r.cfg.Path, size, err))
		case worker.ClassOf(err, "") != worker.ClassOutOfMemory || size == 1 || m.plan.fixed > 0:
			return 0, fmt.Errorf("warm up model %s with a batch of %d: %w", r.cfg.Path, size, err)
		}
		size /= 2
		limit = size
	}
}

func (r *Runner) tryBatches(ctx context.Context, m *model, size int) error {
	for range warmUpRounds {
		group, ctx := errgroup.WithContext(ctx)
		for range r.concurrency {
			group.Go(func() error {
				out, err := r.run(ctx, m.engine, m.plan.zeros(size))
				if err != nil {
					return err
				}
				if err := m.plan.checkResult(out, m.plan.rows(size)); err != nil {
					return worker.Permanent(err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// Prepare implements worker.Runner.
func (r *Runner) Prepare(_ context.Context, it item.Item) (worker.Input, error) {
	m := r.model.Load()
	if m == nil {
		return worker.Input{}, errors.New("prepare item: the model is not loaded")
	}
	data, err := m.plan.decoder.decode(it.Data)
	if err != nil {
		return worker.Input{}, worker.Fail(worker.ClassInvalidInput, err)
	}
	return worker.Input{Item: it, Value: data, Bytes: int64(len(data))}, nil
}

// Run implements worker.Runner.
func (r *Runner) Run(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	if !r.gate.enter() {
		return nil, worker.Failf(worker.ClassTransient, "run model: %w", ErrClosed)
	}
	defer r.gate.leave()
	m := r.model.Load()
	if m == nil {
		return nil, worker.Failf(worker.ClassTransient, "run model: the model is not loaded")
	}
	in, err := m.plan.join(batch)
	if err != nil {
		return nil, worker.Fail(worker.ClassBatchError, err)
	}
	out, err := r.run(ctx, m.engine, in)
	if err != nil {
		return nil, err
	}
	if err := m.plan.checkResult(out, m.plan.rows(len(batch))); err != nil {
		return nil, worker.Fail(worker.ClassProtocolError, err)
	}
	return m.plan.split(batch, out), nil
}

// run is engine.run that also ends with the runner. A run that was told to stop
// says nothing about its items, and so it is transient whatever the library
// answers, unless that is about the device.
func (r *Runner) run(ctx context.Context, e engine, in tensor) (result, error) {
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)() //nolint:contextcheck // two contexts end a run
	if runCtx.Err() != nil || r.life.Err() != nil {
		return result{}, r.stopped(ctx)
	}
	out, err := e.run(runCtx, in)
	if err != nil && runCtx.Err() != nil && worker.ClassOf(err, "") != worker.ClassDevice {
		return result{}, r.stopped(ctx)
	}
	return out, err
}

func (r *Runner) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return worker.Failf(worker.ClassTransient, "run model: stopped: %w", context.Cause(ctx))
	}
	return worker.Failf(worker.ClassTransient, "run model: %w", ErrClosed)
}

// Close implements worker.Runner. It stops what runs and waits for it, for a
// second at most. What is still inside the model then keeps the session until
// it comes back; the error says so.
func (r *Runner) Close() error {
	r.end()
	if !r.gate.close(closeWait) {
		return fmt.Errorf("close model %s: it still runs after %s; its memory is freed when it comes back", r.cfg.Path, closeWait)
	}
	return nil
}

func (r *Runner) free() {
	if m := r.model.Load(); m != nil {
		// There is nobody left to tell, and nothing that could be done.
		_ = m.engine.close()
	}
}
