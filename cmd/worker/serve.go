package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/infer"
	"github.com/spotbatch/spotbatch/internal/pull"
	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// serve works until the stop. It returns in any case within drain.timeout of
// it, within startStop while nothing can be held yet, and at once after a second
// ctrl-C: what is still stuck then ends with the process.
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
	timeout := cfg.Drain.Timeout
	if !p.started() {
		timeout = min(timeout, startStop)
	}
	limit := time.NewTimer(timeout - exitMargin)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-stop.Now:
		return errors.New("stopped at once by a second ctrl-C; what was held is delivered again when its lease ends")
	case <-limit.C:
		log.Error("time to stop is over; leaving behind what is stuck", "timeout", timeout.String())
		return nil
	}
}

const (
	// startStop is how long a stop during the start may take.
	startStop = 2 * time.Second
	// exitMargin is what the process needs to end once serve returned.
	exitMargin = 100 * time.Millisecond
	// pingTimeout is how long a check of the database may take. A session that
	// is slow to be made goes on to be made, for the next check.
	pingTimeout = 5 * time.Second
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// process is everything that one worker process opens.
type process struct {
	cfg  config.Config
	log  *slog.Logger
	name string
	// worker is nil until everything is open.
	worker atomic.Pointer[worker.Worker]
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
	return p.withProbes(ctx, func() error {
		w, closeAll, err := p.open(ctx, tel)
		if err != nil {
			return stopIsNoError(ctx, err)
		}
		defer closeAll()
		p.worker.Store(w)
		return w.Run(ctx)
	})
}

// open makes everything the worker needs. Whether it is there, the worker finds
// out.
func (p *process) open(ctx context.Context, tel *telemetry.Telemetry) (w *worker.Worker, closeAll func(), err error) {
	// An error of the following two is one of the credentials' shape, or that
	// there are none: the library looks for them once in a process. Credentials
	// that come late show in the checks.
	db, err := sink.Open(ctx, p.cfg.Spanner.Database, p.log)
	if err != nil {
		return nil, nil, err
	}
	sub, err := pull.Open(ctx, p.cfg.Project, p.cfg.PubSub, p.cfg.Pull,
		pull.Deps{Name: p.name, Log: p.log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider()})
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
	runner, err := infer.Open(p.cfg.Model, p.cfg.Batch.MaxSize, p.cfg.Infer.Concurrency, p.log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	ping := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		return db.Ping(ctx)
	}
	w, err = worker.New(p.cfg.Worker(p.name), worker.Deps{
		Source: sub, DeadLetters: sub, Store: db.Store(), Attempts: db.Attempts(), Fetcher: fetcher, Runner: runner,
		Checks:     []worker.Check{{Name: "Pub/Sub", Try: sub.Check}, {Name: "Spanner", Try: ping}},
		Connection: sub, Cancellations: db.Cancellations(),
		Log: p.log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider(),
	})
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return w, closeAll, nil
}

// stopIsNoError turns the error of a start that was stopped into none.
func stopIsNoError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("start: %w", err)
}
