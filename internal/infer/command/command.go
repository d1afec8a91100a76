// Package command runs a model in a child program of any language, which
// speaks JSON Lines on its standard input and output.
//
// Each child serves one batch at a time; a Runner keeps as many children as
// batches may be in the model at once, and starts another when one ends. The
// children die with this process, however it dies.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// errUnusable is in the chain of an error of Load when to load again cannot
// help: the program does not exist, or does not speak the protocol.
var errUnusable = worker.Permanent(errors.New("program cannot be used as a runner"))

// errClosed is the cause of everything that Close interrupts.
var errClosed = errors.New("the runner was closed")

var _ worker.Runner = (*Runner)(nil)

// Runner is a worker.Runner on child processes.
type Runner struct {
	cfg   config.Model
	count int // children
	log   *slog.Logger

	life     context.Context // ends with Close, cause errClosed
	end      context.CancelCauseFunc
	starts   *spawner
	children sync.WaitGroup // Load and the supervisors: whoever owns a child
	pool     *pool
	batches  atomic.Uint64
	restarts atomic.Int64

	closing  sync.Once
	closeErr error // written inside closing

	mu       sync.Mutex
	loaded   bool    // Load has succeeded
	stopErrs []error // children that did not end
}

// New makes a Runner of model kind command, with one child for each of the
// concurrency batches that may run at once. It starts nothing yet.
func New(cfg config.Model, concurrency int, log *slog.Logger) *Runner {
	r := &Runner{cfg: cfg, count: max(concurrency, 1), log: log, pool: newPool(), starts: newSpawner()}
	r.life, r.end = context.WithCancelCause(context.Background())
	return r
}

// Load implements worker.Runner: it starts the children and waits until each
// has said that it is ready, for at most model.start_timeout. When ctx ends
// first the children are killed at once. A Load that failed may be tried again.
func (r *Runner) Load(ctx context.Context) (worker.Info, error) {
	if err := r.beginLoad(); err != nil {
		return worker.Info{}, err
	}
	defer r.children.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.life, func() { cancel(errClosed) })() //nolint:contextcheck // Close ends a Load whose ctx goes on.

	started := make([]*child, r.count)
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range started {
		group.Go(func() error {
			var err error
			started[i], err = r.start(groupCtx)
			return err
		})
	}
	err := group.Wait()
	var info worker.Info
	if err == nil {
		info, err = r.describe(ctx, started)
	}
	if err != nil {
		for _, c := range started {
			if c != nil {
				c.end(err)
			}
		}
		return worker.Info{}, fmt.Errorf("load runner: %w", err)
	}
	r.pool.version = info.ModelVersion
	r.mu.Lock()
	r.loaded = true
	r.mu.Unlock()
	for _, c := range started {
		r.pool.put(c)
		r.children.Go(func() { r.supervise(c) })
	}
	return info, nil
}

func (r *Runner) beginLoad() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.life.Err() != nil:
		return fmt.Errorf("load runner: %w", errClosed)
	case r.loaded:
		return errors.New("load runner: it is loaded already")
	case len(r.cfg.Command) == 0:
		return fmt.Errorf("load runner: %w: model.command is empty", errUnusable)
	}
	r.starts.open()
	r.children.Add(1)
	return nil
}

// describe makes one Info of what the children said of themselves.
func (r *Runner) describe(ctx context.Context, started []*child) (worker.Info, error) {
	said := started[0].said
	for _, c := range started[1:] {
		if c.said != said {
			return worker.Info{}, fmt.Errorf("two children of one command differ: model_version %q, max_batch %d, and model_version %q, max_batch %d",
				said.ModelVersion, said.MaxBatch, c.said.ModelVersion, c.said.MaxBatch)
		}
	}
	info := worker.Info{ModelVersion: r.cfg.Version, MaxBatch: r.cfg.MaxBatch}
	if said.MaxBatch > 0 && (info.MaxBatch == 0 || said.MaxBatch < info.MaxBatch) {
		info.MaxBatch = said.MaxBatch
	}
	if info.ModelVersion == "" {
		info.ModelVersion = said.ModelVersion
	}
	if info.ModelVersion == "" {
		var err error
		if info.ModelVersion, err = hashCommand(ctx, r.cfg.Command, r.cfg.Dir); err != nil {
			return worker.Info{}, err
		}
	}
	return info, nil
}

// Prepare implements worker.Runner. The item becomes its part of the line that
// the child reads, so that Run only joins parts.
func (r *Runner) Prepare(_ context.Context, it item.Item) (worker.Input, error) {
	part, err := encodeItem(it)
	if err != nil {
		return worker.Input{}, worker.Fail(worker.ClassInvalidInput, err)
	}
	return worker.Input{Item: it, Value: part, Bytes: int64(len(part))}, nil
}

// Run implements worker.Runner. It waits for a child when all are busy or
// starting, within ctx. A child that does not answer within ctx is killed,
// since its next answer could not be told from the missing one.
func (r *Runner) Run(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
	began := time.Now()
	c, err := r.pool.get(ctx, r.life)
	if err != nil {
		return nil, worker.Fail(worker.ClassOf(err, worker.ClassTransient), fmt.Errorf("wait %s for a runner: %w", since(began), err))
	}
	id := fmt.Sprintf("b%d", r.batches.Add(1))
	outs, err := c.exchange(ctx, id, batch)
	if c.usable() {
		r.pool.put(c)
	}
	switch {
	case r.life.Err() != nil:
		return nil, worker.Failf(worker.ClassTransient, "run batch of %d items: %w", len(batch), errClosed)
	case err != nil && ctx.Err() != nil:
		return nil, worker.Failf(worker.ClassTransient, "run batch of %d items: no answer in %s, the runner was killed: %w",
			len(batch), since(began), context.Cause(ctx))
	}
	return outs, err
}

// since returns the time since t for people.
func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// Restarts returns how often a child was started again after one had ended.
func (r *Runner) Restarts() int64 { return r.restarts.Load() }

// Close implements worker.Runner. Calls of Load and Run that are under way
// return an error at once. Children are asked to end by the end of their
// input, then, after a second each, by SIGTERM and SIGKILL; when Close returns
// none of their process groups is left, or the error says which. Closing
// again waits for the same end.
func (r *Runner) Close() error {
	r.closing.Do(func() {
		r.mu.Lock()
		r.end(errClosed)
		r.mu.Unlock()
		r.children.Wait()
		r.starts.close() // not before: the children die with its thread
		r.closeErr = errors.Join(r.stopErrs...)
	})
	return r.closeErr
}

// start starts one child and waits until it is ready.
func (r *Runner) start(ctx context.Context) (*child, error) {
	if r.cfg.StartTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.cfg.StartTimeout,
			fmt.Errorf("it did not say that it is ready within model.start_timeout (%s)", r.cfg.StartTimeout))
		defer cancel()
	}
	cmd, err := program(r.cfg.Command, r.cfg.Dir, os.Environ())
	if err != nil {
		return nil, err
	}
	c, err := startChild(cmd, r.starts, r.log)
	if err != nil {
		return nil, err
	}
	if err := c.awaitReady(ctx); err != nil {
		c.end(err)
		return nil, fmt.Errorf("start %q: %w", r.cfg.Command[0], err)
	}
	return c, nil
}
