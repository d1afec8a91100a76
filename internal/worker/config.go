package worker

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Config says how much a worker does at once, and when it gives up. All values
// must be set; the defaults that users see are those of internal/config.
type Config struct {
	// Name is written into each row as its worker.
	Name string
	// MaxHeld is how many deliveries the Source hands out at once; it bounds
	// every queue.
	MaxHeld int

	// BatchSize, BatchWait and BatchBytes limit a batch: items, time since its
	// first item, and the sum of Input.Bytes.
	BatchSize  int
	BatchWait  time.Duration
	BatchBytes int64

	// InferConcurrency is the number of batches in the model at once.
	InferConcurrency int
	// InferTimeout is how long one batch may take.
	InferTimeout time.Duration
	// MaxItemFailures and MaxItemCrashes are how often an item may fail, or
	// kill the runner, while it is alone in the model.
	MaxItemFailures int
	MaxItemCrashes  int
	// SuspectAfter is the delivery attempt from which the starts of an item
	// are recorded in Attempts.
	SuspectAfter int

	// CommitConcurrency is the number of commits in flight.
	CommitConcurrency int
	// StoreTimeout is how long a look-up or commit is tried before its items
	// are given back.
	StoreTimeout time.Duration

	// LoadTimeout is how long the checks may fail and the model may take to
	// load and warm up, together.
	LoadTimeout time.Duration
	// ExitWhenIdle is how long there is no work before Run ends by itself; 0
	// means never.
	ExitWhenIdle time.Duration
	// HardStop is how long after the stop of the intake everything that is
	// still held is given back.
	HardStop time.Duration
}

// Deps are the collaborators of a worker. Source, DeadLetters, Store, Attempts,
// Fetcher and Runner are required; nil Checks, Connection, Cancellations, Log,
// Meter or Tracer mean none.
type Deps struct {
	Source      Source
	DeadLetters DeadLetters
	Store       Store
	Attempts    Attempts
	Fetcher     Fetcher
	Runner      Runner

	Checks        []Check
	Connection    Connection
	Cancellations Cancellations

	Log    *slog.Logger
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

// noCancellations is for stores without runs.
type noCancellations struct{}

func (noCancellations) Cancelled(context.Context) (map[string]bool, error) { return nil, nil }

// alwaysConnected is for sources that cannot lose their connection.
type alwaysConnected struct{}

func (alwaysConnected) Connected() bool { return true }

func (d Deps) withDefaults() Deps {
	if d.Connection == nil {
		d.Connection = alwaysConnected{}
	}
	if d.Cancellations == nil {
		d.Cancellations = noCancellations{}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Meter == nil {
		d.Meter = metricnoop.NewMeterProvider()
	}
	if d.Tracer == nil {
		d.Tracer = tracenoop.NewTracerProvider()
	}
	return d
}
