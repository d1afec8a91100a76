package main

import (
	"context"
	"fmt"
	"os"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/infer"
	"github.com/spotbatch/spotbatch/internal/pull"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// work is what `worker run` does, with a bug.
func work(ctx context.Context, bug string, environ []string) error {
	cfg, _, err := config.Load("", environ)
	if err == nil {
		err = cfg.ValidateWorker()
	}
	if err != nil {
		return err
	}
	log := telemetry.NewLogger(os.Stderr, cfg.Log, false)
	db, err := sink.Open(ctx, cfg.Spanner.Database, log)
	if err != nil {
		return err
	}
	defer db.Close()
	name := os.Getenv("POD_NAME")
	sub, err := pull.Open(ctx, cfg.Project, cfg.PubSub, cfg.Pull,
		pull.Deps{Name: name, Log: log, Meter: metricnoop.NewMeterProvider(), Tracer: tracenoop.NewTracerProvider()})
	if err != nil {
		return err
	}
	defer sub.Close() //nolint:errcheck // the process ends
	runner, err := infer.Open(cfg.Model, cfg.Batch.MaxSize, cfg.Infer.Concurrency, log)
	if err != nil {
		return err
	}
	deps := worker.Deps{
		Source: sub, DeadLetters: sub, Store: db.Store(), Attempts: db.Attempts(), Fetcher: fetch.New(1 << 20), Runner: runner, Log: log,
	}
	plant, found := bugs[bug]
	if !found {
		return fmt.Errorf("CHAOS_BUG is %q; known are %v", bug, names())
	}
	plant(&deps)
	w, err := worker.New(cfg.Worker(name), deps)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
