// Package brokertest holds what tests of the broker's users need: a clock that
// moves only when told to.
package brokertest

import (
	"slices"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// Clock stands still until Advance is called. It is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

var _ broker.Clock = (*Clock)(nil)

type timer struct {
	c     *Clock
	at    time.Time
	f     func()
	armed bool
}

// NewClock returns a clock that shows the present time, since clients compare
// publish times with their own.
func NewClock() *Clock { return &Clock{now: time.Now().Round(0)} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc makes Advance call f.
func (c *Clock) AfterFunc(d time.Duration, f func()) broker.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c: c, at: c.now.Add(d), f: f, armed: true}
	c.timers = append(c.timers, t)
	return t
}

// Advance moves the clock and makes the calls that fall due on the way, each at
// its time, one after the other. It returns when they have returned.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		t := c.next(end)
		if t == nil {
			break
		}
		if t.at.After(c.now) {
			c.now = t.at
		}
		c.disarm(t)
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

func (c *Clock) next(end time.Time) *timer {
	var first *timer
	for _, t := range c.timers {
		if !t.at.After(end) && (first == nil || t.at.Before(first.at)) {
			first = t
		}
	}
	return first
}

func (c *Clock) disarm(t *timer) {
	t.armed = false
	c.timers = slices.DeleteFunc(c.timers, func(x *timer) bool { return x == t })
}

func (t *timer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := t.armed
	t.c.disarm(t)
	return was
}

func (t *timer) Reset(d time.Duration) bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := t.armed
	t.c.disarm(t)
	t.at, t.armed = t.c.now.Add(d), true
	t.c.timers = append(t.c.timers, t)
	return was
}
