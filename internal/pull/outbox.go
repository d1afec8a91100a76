package pull

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

const (
	// linger is how long the first of several settlements waits for others:
	// the items of a batch are settled within a moment.
	linger = 5 * time.Millisecond
	// idsPerCall keeps a call below the 512 KiB that Pub/Sub allows.
	idsPerCall = 1000
	// callTimeout is how long one call may take before it is made again, and
	// resendPause the longest pause before that. A drain has no time for more.
	callTimeout = 3 * time.Second
	resendPause = time.Second
)

// settlement is an ack or nack on its way.
type settlement struct {
	ackID string
	ack   bool
	// until is when the lease ends: after that, nothing may be sent for it.
	until time.Time
	// of is the span of the delivery.
	of trace.SpanContext
}

// outbox sends acks and nacks. Calls that fail in passing are made again until
// the lease is over; the message then comes back, and is found stored.
type outbox struct {
	// send makes one call for settlements that are all acks, or all nacks.
	send func(ctx context.Context, batch []settlement) error
	// hold is asked before each call and returns when it may be made.
	hold func()
	log  *slog.Logger

	mu      sync.Mutex
	pending []settlement
	closed  bool
	// wake has room for one: something is pending, or closed has changed.
	wake chan struct{}
}

func newOutbox(log *slog.Logger, hold func(), send func(ctx context.Context, batch []settlement) error) *outbox {
	return &outbox{send: send, hold: hold, log: log, wake: make(chan struct{}, 1)}
}

// put queues settlements.
func (o *outbox) put(settlements ...settlement) {
	o.mu.Lock()
	o.pending = append(o.pending, settlements...)
	o.mu.Unlock()
	o.ring()
}

// close says that nothing more is put: run returns when all is sent.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.ring()
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what is pending, and whether nothing more will come.
func (o *outbox) take() (pending []settlement, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pending, o.pending = o.pending, nil
	return pending, o.closed
}

// run sends until everything is sent after close, or until ctx is done.
func (o *outbox) run(ctx context.Context) {
	var rest []settlement
	tries := pause{most: resendPause}
	for {
		pending, closed := o.take()
		rest = append(rest, pending...)
		if len(rest) == 0 {
			if closed {
				return
			}
			select {
			case <-o.wake:
			case <-ctx.Done():
				return
			}
			if !closed {
				sleep(ctx, linger)
			}
			continue
		}
		o.hold()
		sent := len(rest)
		rest = o.sendAll(ctx, rest)
		if len(rest) < sent {
			tries.next = 0
		}
		if len(rest) > 0 && !tries.wait(ctx) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sendAll makes one try for each settlement and returns those to be tried
// again. Nacks go first: somebody else can work on them.
func (o *outbox) sendAll(ctx context.Context, all []settlement) (again []settlement) {
	for _, ack := range []bool{false, true} {
		now := time.Now()
		var due []settlement
		for _, s := range all {
			if s.ack == ack && now.Before(s.until) {
				due = append(due, s)
			}
		}
		for chunk := range slices.Chunk(due, idsPerCall) {
			callCtx, cancel := context.WithTimeout(ctx, callTimeout)
			err := o.send(callCtx, chunk)
			cancel()
			if err == nil {
				continue
			}
			retry := toRetry(err, chunk)
			o.log.WarnContext(ctx, "settlements not sent", "acks", ack, "count", len(chunk), "again", len(retry), "error", err)
			again = append(again, retry...)
		}
	}
	return again
}

// toRetry returns what of a failed call is worth another try.
func toRetry(err error, batch []settlement) []settlement {
	failed := failedIDs(err)
	switch {
	case len(failed) > 0:
		return slices.DeleteFunc(slices.Clone(batch), func(s settlement) bool { return !failed[s.ackID].passing() })
	case retryable(err):
		return batch
	default:
		return nil
	}
}
