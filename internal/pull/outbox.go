package pull

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

const (
	// linger is how long the first of several settlements waits for others:
	// the items of a batch are settled within a moment.
	linger = 5 * time.Millisecond
	// idsPerCall keeps a call below the 512 KiB that Pub/Sub allows.
	idsPerCall = 1000
	// callTimeout is how long one call may take before it is made again.
	callTimeout = 10 * time.Second
)

// settlement is an ack or nack on its way.
type settlement struct {
	ackID string
	ack   bool
	// until is when the lease ends: after that, nothing may be sent for it.
	until time.Time
}

// outbox sends acks and nacks. Calls that fail in passing are made again until
// the lease is over; the message then comes back, and is found stored.
type outbox struct {
	// send makes one call for ack IDs: an ack, or a nack.
	send func(ctx context.Context, ackIDs []string, ack bool) error
	// hold is asked before each call and returns when it may be made.
	hold func()
	log  *slog.Logger

	mu      sync.Mutex
	pending []settlement
	closed  bool
	// wake has room for one: something is pending, or closed has changed.
	wake chan struct{}
}

func newOutbox(log *slog.Logger, hold func(), send func(ctx context.Context, ackIDs []string, ack bool) error) *outbox {
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
	var tries pause
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
			tries = pause{}
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
		byID := make(map[string]settlement)
		var ids []string
		for _, s := range all {
			if s.ack == ack && now.Before(s.until) {
				byID[s.ackID] = s
				ids = append(ids, s.ackID)
			}
		}
		for _, chunk := range chunks(ids) {
			callCtx, cancel := context.WithTimeout(ctx, callTimeout)
			err := o.send(callCtx, chunk, ack)
			cancel()
			if err == nil {
				continue
			}
			retry := toRetry(err, chunk)
			o.log.WarnContext(ctx, "settlements not sent", "acks", ack, "count", len(chunk), "again", len(retry), "error", err)
			for _, id := range retry {
				again = append(again, byID[id])
			}
		}
	}
	return again
}

// toRetry returns the ack IDs of a failed call that are worth another try.
// Exactly-once subscriptions answer for each ID, in the metadata of an
// ErrorInfo; an ID that is not named there succeeded.
func toRetry(err error, ackIDs []string) []string {
	for _, detail := range status.Convert(err).Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || len(info.GetMetadata()) == 0 {
			continue
		}
		var retry []string
		named := false
		for _, id := range ackIDs {
			reason, found := info.GetMetadata()[id]
			named = named || found
			if found && strings.HasPrefix(reason, "TRANSIENT_FAILURE_") {
				retry = append(retry, id)
			}
		}
		if named {
			return retry
		}
	}
	if retryable(err) {
		return ackIDs
	}
	return nil
}

// chunks cuts ack IDs to what one call takes.
func chunks(ids []string) [][]string {
	var all [][]string
	for len(ids) > idsPerCall {
		all = append(all, ids[:idsPerCall])
		ids = ids[idsPerCall:]
	}
	if len(ids) > 0 {
		all = append(all, ids)
	}
	return all
}
