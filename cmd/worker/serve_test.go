package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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
	if err := p.withProbes(ctx, func() error { return nil }); err != nil {
		t.Errorf("withProbes: got %v, want nil", err)
	}
}

// brokenProbes end at once, as they do when their port is taken away.
type brokenProbes struct{}

func (brokenProbes) Serve() error { return errors.New("accept: use of closed network connection") }
func (brokenProbes) Close() error { return errors.New("closed already") }

// Field case 4.8: probes that break during the drain leave it, and its exit code,
// alone.
func TestBrokenProbesLeaveTheDrainAlone(t *testing.T) {
	var log bytes.Buffer
	p := &process{log: slog.New(slog.NewTextHandler(&log, nil))}
	drained := false
	err := p.beside(brokenProbes{}, func() error {
		drained = true
		return nil
	})
	if err != nil || !drained {
		t.Errorf("beside: got %v, drained %t; want nil after the drain", err, drained)
	}
	if !strings.Contains(log.String(), "health server stopped") {
		t.Errorf("log: %s", log.String())
	}
	broken := errors.New("device is broken")
	if err := p.beside(brokenProbes{}, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("beside: got %v, want the error of the work", err)
	}
}
