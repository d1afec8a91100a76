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

// lease is our right to one delivery.
type lease struct {
	ackID string
	// lost is closed when the right is known to have ended.
	lost chan struct{}
	// begun is when the delivery came.
	begun time.Time

	// Guarded by leases.mu: ends is when the right ends unless it is extended,
	// as far as we know; extend is when that is due.
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
	n := &lease{ackID: ackID, lost: make(chan struct{}), begun: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted(n, now)
	l.held[ackID] = n
	return n
}

// granted notes an extension that was asked for at the time at. It is asked
// for again after a third of it, so that two tries may fail.
func (l *leases) granted(n *lease, at time.Time) {
	n.ends = at.Add(l.length)
	n.extend = at.Add(l.length / 3)
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
	for {
		select {
		case <-tick.C:
			l.keep(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// keep drops what is lost and extends what is due.
func (l *leases) keep(ctx context.Context, now time.Time) {
	due := l.due(now)
	for ids := range slices.Chunk(due, idsPerCall) {
		// Bounded, so that a service that does not answer does not keep us from
		// noticing what is lost meanwhile.
		callCtx, cancel := context.WithTimeout(ctx, l.length/3)
		err := l.modify(callCtx, ids, l.length)
		cancel()
		failed := failedIDs(err)
		if err != nil && len(failed) == 0 {
			// They stay due: the next tick tries again, until they are lost.
			continue
		}
		l.extended(ids, failed, now)
	}
}

// extended notes what became of an extension that was asked for at the time at.
func (l *leases) extended(ids []string, failed map[string]failure, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		n, failure := l.held[id], failed[id]
		switch {
		case n == nil: // settled meanwhile
		case failure == "":
			l.granted(n, at)
		case !failure.passing():
			l.lose(n)
		}
	}
}

// lose lets go of a lease that has ended.
func (l *leases) lose(n *lease) {
	delete(l.held, n.ackID)
	close(n.lost)
}

// due returns the ack IDs to be extended, and lets go what is lost.
func (l *leases) due(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []string
	for id, n := range l.held {
		switch {
		case now.After(n.ends), now.Sub(n.begun) >= l.most:
			l.lose(n)
		case now.After(n.extend):
			due = append(due, id)
		}
	}
	return due
}
