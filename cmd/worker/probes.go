package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/health"
)

// started reports whether the start is over, so that deliveries may be held.
func (p *process) started() bool {
	w := p.worker.Load()
	return w != nil && w.Started()
}

// alive and ready are what the probes ask. Before there is a worker, the process
// is alive and not ready.
func (p *process) alive() error {
	w := p.worker.Load()
	if w == nil {
		return nil
	}
	err := w.Alive()
	if err != nil {
		p.log.Error("no progress; /livez says so", "error", err)
	}
	return err
}

func (p *process) ready() bool {
	w := p.worker.Load()
	return w != nil && w.Ready()
}

// withProbes serves health beside work, from before anything else is there
// until work returns.
func (p *process) withProbes(ctx context.Context, work func() error) error {
	if p.cfg.Health.Addr == "" {
		return work()
	}
	probes, err := health.Listen(ctx, p.cfg.Health.Addr, p.alive, p.ready)
	if err != nil {
		return stopIsNoError(ctx, err)
	}
	p.log.Info("serving health", "addr", probes.Addr())
	return p.beside(probes, work)
}

// server is what beside needs of a health.Server.
type server interface {
	Serve() error
	Close() error
}

// beside does work while probes are served. Probes that break end neither the
// work nor its drain, and change nothing of what comes of it: that they do not
// answer is for whoever asks.
func (p *process) beside(probes server, work func() error) error {
	var group errgroup.Group
	group.Go(func() error {
		if err := probes.Serve(); err != nil {
			p.log.Error("health server stopped", "error", err)
		}
		return nil
	})
	group.Go(func() error {
		defer func() {
			if err := probes.Close(); err != nil {
				p.log.Warn("health server not closed cleanly", "error", err)
			}
		}()
		return work()
	})
	return group.Wait()
}
