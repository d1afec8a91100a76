package pull

import (
	"context"
	"slices"
	"sync"
	"time"
)

// leaseTick is how often leases are looked at: an extension or a loss is late
// by at most this long.
const leaseTick = 500 * time.Millisecond

// extensions is how often an extension is asked for while a lease lasts: three
// tries in a row may fail, or take three quarters of it to be answered.
const extensions = 4

// lease is our right to one delivery.
type lease struct {
	ackID string
	// lost is closed when the right is known to have ended.
	lost chan struct{}
	// begun is when the delivery came.
	begun time.Time

	// Guarded by leases.mu: ends is when the right ends unless it is extended,
	// as far as we know; extend is when the next extension is to be asked for.
	ends   time.Time
	extend time.Time
}

// leases are the rights to what is held, by ack ID.
type leases struct {
	// length is by how much a lease is extended; most is how long one is held.
	length time.Duration
	most   time.Duration
	// modify asks the service to extend leases. It must be safe for concurrent
	// use.
	modify func(ctx context.Context, ackIDs []string, deadline time.Duration) error

	mu   sync.Mutex
	held map[string]*lease
}

func newLeases(length, most time.Duration, modify func(context.Context, []string, time.Duration) error) *leases {
	return &leases{length: length, most: most, modify: modify, held: make(map[string]*lease)}
}

// add begins a lease that was granted now, for length.
func (l *leases) add(ackID string) *lease {
	now := time.Now()
	n := &lease{ackID: ackID, lost: make(chan struct{}), begun: now, ends: now.Add(l.length), extend: now.Add(l.length / extensions)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[ackID] = n
	return n
}

// drop ends the keeping of a lease and reports whether it was ours until now:
// only then may the delivery be acked or nacked.
func (l *leases) drop(n *lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[n.ackID] != n {
		return false
	}
	delete(l.held, n.ackID)
	return time.Now().Before(n.ends)
}

// run keeps leases until ctx is done.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-tick.C:
			now := time.Now()
			for ids := range slices.Chunk(l.due(now), idsPerCall) {
				asking.Go(func() { l.ask(ctx, ids, now) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// ask extends leases. It is not waited for: while an answer is under way, what
// is lost is noticed and the next extension is asked for, so that answers may be
// late by most of a lease before one is given up that the service has granted.
func (l *leases) ask(ctx context.Context, ids []string, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, l.length) // A later answer is of no use.
	defer cancel()
	l.answered(ids, l.modify(ctx, ids, l.length), at)
}

// answered notes what became of an extension that was asked for at the time at.
// Answers may come in any order.
func (l *leases) answered(ids []string, err error, at time.Time) {
	failed := failedIDs(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		n, failure := l.held[id], failed[id]
		switch {
		case n == nil: // settled meanwhile
		case failure != "" && !failure.passing():
			l.lose(n)
		case failure != "" || err != nil && len(failed) == 0:
			// Due at once: every tick tries again, until it is lost.
			n.extend = at
		case n.ends.Before(at.Add(l.length)):
			n.ends = at.Add(l.length)
		}
	}
}

// lose lets go of a lease that has ended.
func (l *leases) lose(n *lease) {
	delete(l.held, n.ackID)
	close(n.lost)
}

// due returns the ack IDs to be extended now, and lets go what is lost.
func (l *leases) due(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []string
	for id, n := range l.held {
		switch {
		case now.After(n.ends), now.Sub(n.begun) >= l.most:
			l.lose(n)
		case now.After(n.extend):
			n.extend = now.Add(l.length / extensions)
			due = append(due, id)
		}
	}
	return due
}
