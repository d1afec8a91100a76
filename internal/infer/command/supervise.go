package command

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// Delays before a child is started again: doubled each time until a batch has
// been answered. The longest keeps a program that cannot start from loading
// the machine, and is short beside the start of a large model.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 30 * time.Second
)

// supervise keeps one child of the pool alive until the runner is closed.
func (r *Runner) supervise(c *child) {
	delay := firstDelay
	for {
		select {
		case <-c.exited:
		case <-r.life.Done():
			if err := c.stop(); err != nil {
				r.mu.Lock()
				r.stopErrs = append(r.stopErrs, err)
				r.mu.Unlock()
			}
			return
		}
		if c.answered.Load() {
			delay = firstDelay
		}
		r.log.Warn("runner ended, starting it again", "reason", c.reason(), "delay", delay)
		if c = r.restart(&delay); c == nil {
			return
		}
		r.restarts.Add(1)
		r.pool.put(c)
	}
}

// restart starts a child again and again until one is ready; nil when the
// runner was closed meanwhile. It does not depend on any call of Run: a model
// may take longer to load than a batch may wait.
func (r *Runner) restart(delay *time.Duration) *child {
	for {
		select {
		case <-time.After(*delay):
		case <-r.life.Done():
			return nil
		}
		*delay = min(2**delay, lastDelay)
		c, err := r.start(r.life)
		if err == nil {
			if err = r.sameModel(c); err == nil {
				return c
			}
			c.end(err)
		}
		if r.life.Err() != nil {
			return nil
		}
		r.pool.notStarted(err)
		r.log.Warn("runner did not start, trying again", "error", err, "delay", *delay)
	}
}

// sameModel refuses a child that runs another model than the one that Load
// spoke of, since its results would be stored under the wrong version.
func (r *Runner) sameModel(c *child) error {
	said := c.said.ModelVersion
	if r.cfg.Version != "" || said == "" || said == r.pool.version {
		return nil
	}
	return worker.Failf(worker.ClassDevice, "model version is %q after a restart; it was %q when this worker started", said, r.pool.version)
}

// pool holds the children that are ready and idle.
type pool struct {
	version string // of the loaded model; written before the first child is put

	mu   sync.Mutex
	idle []*child
	wake chan struct{} // closed when idle or startErr changes
	// startErr is why the latest start failed; nil once one has succeeded.
	startErr error
}

func newPool() *pool { return &pool{wake: make(chan struct{})} }

func (p *pool) put(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropDead()
	p.idle = append(p.idle, c)
	p.startErr = nil
	p.changed()
}

func (p *pool) notStarted(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startErr = err
	p.changed()
}

// changed wakes those who wait; mu is held.
func (p *pool) changed() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// dropDead forgets the children that died while they were idle; mu is held.
func (p *pool) dropDead() {
	p.idle = slices.DeleteFunc(p.idle, func(c *child) bool { return !c.usable() })
}

// get takes a child out of the pool, and waits for one until ctx or life ends.
// A child that died while it was idle is passed over: no item was in it.
func (p *pool) get(ctx, life context.Context) (*child, error) {
	var startErr error
	for {
		switch {
		case life.Err() != nil:
			return nil, context.Cause(life)
		case ctx.Err() != nil && startErr != nil:
			return nil, fmt.Errorf("%w; the latest start: %w", context.Cause(ctx), startErr)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		var c *child
		var wake <-chan struct{}
		c, wake, startErr = p.take()
		switch {
		case c != nil:
			return c, nil
		case worker.ClassOf(startErr, "") == worker.ClassDevice:
			return nil, startErr
		}
		select {
		case <-wake:
		case <-life.Done():
		case <-ctx.Done():
		}
	}
}

// take pops a child, or returns nil with the channel that tells of a change
// and the latest failure to start.
func (p *pool) take() (*child, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropDead()
	if len(p.idle) == 0 {
		return nil, p.wake, p.startErr
	}
	c := p.idle[0]
	p.idle = p.idle[1:]
	return c, p.wake, nil
}
