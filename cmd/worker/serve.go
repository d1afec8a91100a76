package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/health"
	"github.com/spotbatch/spotbatch/internal/infer"
	"github.com/spotbatch/spotbatch/internal/pull"
	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// serve works until the stop. It returns in any case within drain.timeout of
// it, and at once after a second ctrl-C: what is still stuck then ends with
// the process.
func serve(stop signals.Stop, cfg config.Config, environ []string, stderr io.Writer) error {
	log := telemetry.NewLogger(stderr, cfg.Log, isTerminal(stderr))
	p := &process{cfg: cfg, log: log, name: workerName(environ)}
	done := make(chan error, 1)
	go func() { done <- p.run(stop.Context) }()

	select {
	case err := <-done:
		return err
	case <-stop.Context.Done():
	}
	log.Info("stopping", "cause", context.Cause(stop.Context).Error())
	limit := time.NewTimer(cfg.Drain.Timeout - exitMargin)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-stop.Now:
		return errors.New("stopped at once by a second ctrl-C; what was held is delivered again when its lease ends")
	case <-limit.C:
		log.Error("drain.timeout is over; leaving behind what is stuck", "timeout", cfg.Drain.Timeout.String())
		return nil
	}
}

// exitMargin is what the process needs to end once serve returned.
const exitMargin = 100 * time.Millisecond

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// process is everything that one worker process opens.
type process struct {
	cfg  config.Config
	log  *slog.Logger
	name string
}

// run opens everything, works, and closes everything in the opposite order.
func (p *process) run(ctx context.Context) (err error) {
	tel, err := telemetry.Setup(ctx, p.cfg.Telemetry, "spotbatch-worker", version, p.log)
	if err != nil {
		return stopIsNoError(ctx, err)
	}
	defer func() {
		// The stop must not cut the last export short.
		flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Telemetry.FlushTimeout)
		defer cancel()
		if flushErr := tel.Shutdown(flushCtx); flushErr != nil {
			p.log.Warn("last telemetry not delivered", "error", flushErr)
		}
	}()

	if tel.MetricsAddr != "" {
		p.log.Info("serving metrics", "addr", tel.MetricsAddr)
	}
	w, closeAll, err := p.open(ctx, tel)
	if err != nil {
		return stopIsNoError(ctx, err)
	}
	defer closeAll()
	return p.work(ctx, w)
}

// open connects to everything the worker needs and asks whether it is there.
func (p *process) open(ctx context.Context, tel *telemetry.Telemetry) (w *worker.Worker, closeAll func(), err error) {
	db, err := sink.Open(ctx, p.cfg.Spanner.Database, p.log)
	if err != nil {
		return nil, nil, err
	}
	sub, err := pull.Open(ctx, p.cfg.Project, p.cfg.PubSub, p.cfg.Pull,
		pull.Deps{Log: p.log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider()})
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	fetcher := fetch.New(int64(p.cfg.Pull.MaxOutstandingBytes))
	closeAll = func() {
		if err := errors.Join(sub.Close(), fetcher.Close()); err != nil {
			p.log.Warn("connections not closed cleanly", "error", err)
		}
		db.Close()
	}
	checks, checkCtx := errgroup.WithContext(ctx)
	checks.Go(func() error { return db.Ping(checkCtx) })
	checks.Go(func() error { return sub.Check(checkCtx) })
	if err := checks.Wait(); err != nil {
		closeAll()
		return nil, nil, err
	}
	runner, err := infer.Open(p.cfg.Model, p.cfg.Batch.MaxSize, p.cfg.Infer.Concurrency, p.log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	w, err = worker.New(p.workerConfig(), worker.Deps{
		Source: sub, DeadLetters: sub, Store: db.Store(), Attempts: db.Attempts(), Fetcher: fetcher, Runner: runner,
		Cancellations: db.Cancellations(),
		Log:           p.log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider(),
	})
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return w, closeAll, nil
}

// work serves health beside the worker, from before the model is loaded until
// the drain is over.
func (p *process) work(ctx context.Context, w *worker.Worker) error {
	if p.cfg.Health.Addr == "" {
		return w.Run(ctx)
	}
	probes, err := health.Listen(ctx, p.cfg.Health.Addr, w.Ready)
	if err != nil {
		return stopIsNoError(ctx, err)
	}
	p.log.Info("serving health", "addr", probes.Addr())
	var group errgroup.Group
	// Probes that end must not end the drain: both are waited for.
	group.Go(probes.Serve)
	group.Go(func() error {
		return errors.Join(w.Run(ctx), probes.Close())
	})
	return group.Wait()
}

func (p *process) workerConfig() worker.Config {
	c := p.cfg
	return worker.Config{
		Name:              p.name,
		MaxHeld:           c.Pull.MaxOutstanding,
		BatchSize:         c.Batch.MaxSize,
		BatchWait:         c.Batch.MaxWait,
		BatchBytes:        int64(c.Batch.MaxBytes),
		InferConcurrency:  c.Infer.Concurrency,
		InferTimeout:      c.Infer.Timeout,
		MaxItemFailures:   c.Infer.MaxItemFailures,
		MaxItemCrashes:    c.Infer.MaxItemCrashes,
		SuspectAfter:      c.Infer.SuspectAfter,
		CommitConcurrency: c.Commit.Concurrency,
		StoreTimeout:      c.Commit.Timeout,
		LoadTimeout:       c.Model.StartTimeout,
		HardStop:          c.HardStop(),
	}
}

// stopIsNoError turns the error of a start that was stopped into none.
func stopIsNoError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("start: %w", err)
}
