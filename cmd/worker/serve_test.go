package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
)

// A stop that comes during the start is no failure, wherever the start is then.
func TestStopDuringTheStartIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	// The look-up of a name heeds the context.
	cfg := config.Config{Telemetry: config.Telemetry{Metrics: "prometheus", MetricsAddr: "localhost:0", Traces: "none"}}
	p := &process{cfg: cfg, log: slog.New(slog.DiscardHandler), name: "w1"}
	if err := p.run(ctx); err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	cfg = config.Config{Health: config.Health{Addr: "localhost:0"}}
	p = &process{cfg: cfg, log: slog.New(slog.DiscardHandler), name: "w1"}
	if err := p.work(ctx, nil); err != nil {
		t.Errorf("work: got %v, want nil", err)
	}
}
