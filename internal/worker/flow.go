package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// send puts v into out, or returns false when ctx is done first.
func send[T any](ctx context.Context, out chan<- T, v T) bool {
	select {
	case out <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// gather waits for one value of in and takes what else is there already, up to
// limit. It returns nil when ctx is done.
func gather[T any](ctx context.Context, in <-chan T, limit int) []T {
	select {
	case first := <-in:
		return gatherMore(in, []T{first}, limit)
	case <-ctx.Done():
		return nil
	}
}

func gatherMore[T any](in <-chan T, got []T, limit int) []T {
	for len(got) < limit {
		select {
		case v := <-in:
			got = append(got, v)
		default:
			return got
		}
	}
	return got
}

// within waits for done, for at most limit, and reports whether it came.
func within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done: // also when no time is left
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 5 * time.Second
)

// backoff waits longer each time: from 100 ms, doubling, up to 5 s, with up to
// a quarter taken off at random so that workers do not try in step. The zero
// value is ready.
type backoff struct {
	next time.Duration
	// most replaces the 5 s; 0 does not.
	most time.Duration
}

// wait returns false as soon as ctx is done, which is at once when ctx would
// be done before the wait is over.
func (b *backoff) wait(ctx context.Context) bool {
	pause := b.step()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false
	}
	return sleep(ctx, pause)
}

// step returns the next pause without waiting for it.
func (b *backoff) step() time.Duration {
	b.next = min(max(2*b.next, backoffFirst), cmp.Or(b.most, backoffMost))
	return b.next - time.Duration(rand.Int64N(int64(b.next)/4))
}

// sleep waits for d; false means that ctx was done first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
