package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// keeper is a leases under test with what it asked for.
type keeper struct {
	*leases
	mu    sync.Mutex
	calls []extension
	fail  func(now time.Duration) error
}

type extension struct {
	at  time.Duration
	ids []string
}

// inBubble runs test with leases of 30 s, 100 s at most, that are being kept.
func inBubble(t *testing.T, test func(t *testing.T, k *keeper, begin time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		k := &keeper{fail: func(time.Duration) error { return nil }}
		k.leases = newLeases(30*time.Second, 100*time.Second, func(_ context.Context, ids []string, deadline time.Duration) error {
			if deadline != 30*time.Second {
				t.Errorf("asked for %s, want the lease's length", deadline)
			}
			ids = slices.Clone(ids)
			slices.Sort(ids)
			k.mu.Lock()
			k.calls = append(k.calls, extension{time.Since(begin), ids})
			k.mu.Unlock()
			return k.fail(time.Since(begin))
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.run(ctx) }()
		test(t, k, begin)
		cancel()
		<-done
	})
}

func isLost(l *lease) bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// at lets the bubble's clock run to begin+d.
func at(begin time.Time, d time.Duration) {
	time.Sleep(time.Until(begin.Add(d)))
	synctest.Wait()
}

func TestLeaseIsExtendedUntilItHasLastedLongEnough(t *testing.T) {
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		l := k.add("a")
		at(begin, 99*time.Second)
		if isLost(l) {
			t.Fatal("lost while every extension was granted")
		}
		for i, call := range k.calls {
			want := time.Duration(i+1) * (30*time.Second/extensions + leaseTick)
			if call.at != want {
				t.Errorf("extension %d at %s, want %s", i, call.at, want)
			}
		}
		at(begin, 100*time.Second)
		if !isLost(l) || k.drop(l) {
			t.Error("still ours after the longest time that a lease may be held")
		}
	})
}

func TestLeaseSurvivesTwoFailedExtensions(t *testing.T) {
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		k.fail = func(now time.Duration) error {
			if now < 29*time.Second {
				return errors.New("unavailable")
			}
			return nil
		}
		l := k.add("a")
		at(begin, 50*time.Second)
		if isLost(l) || !k.drop(l) {
			t.Error("lost although an extension was granted before the end")
		}
	})
}

func TestLeaseIsLostWhenNoExtensionIsGranted(t *testing.T) {
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		k.fail = func(time.Duration) error { return errors.New("unavailable") }
		l := k.add("a")
		at(begin, 30*time.Second)
		if isLost(l) {
			t.Error("lost before it ended")
		}
		at(begin, 30*time.Second+leaseTick)
		if !isLost(l) || k.drop(l) {
			t.Error("still ours after it ended")
		}
	})
}

// Between the end of a lease and the tick that notices it, nothing is sent.
func TestEndedLeaseIsNotSettled(t *testing.T) {
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		k.fail = func(time.Duration) error { return errors.New("unavailable") }
		l := k.add("a")
		at(begin, 30*time.Second+leaseTick/2)
		if k.drop(l) {
			t.Error("a delivery whose lease has ended was ours")
		}
	})
}

func TestDroppedLeaseIsNotExtended(t *testing.T) {
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		a, b := k.add("a"), k.add("b")
		at(begin, time.Second)
		if !k.drop(a) {
			t.Error("a fresh lease was not ours")
		}
		if k.drop(a) {
			t.Error("a lease was ours twice")
		}
		at(begin, 40*time.Second)
		for _, call := range k.calls {
			if !slices.Equal(call.ids, []string{"b"}) {
				t.Errorf("extended %v at %s, want b alone", call.ids, call.at)
			}
		}
		if isLost(b) {
			t.Error("b was lost")
		}
	})
}

// A service that does not answer must not keep losses from being noticed.
func TestHangingExtensionDoesNotHideALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := newLeases(30*time.Second, time.Hour, func(ctx context.Context, _ []string, _ time.Duration) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.run(ctx) }()
		a := l.add("a")
		<-a.lost
		if took := time.Since(begin); took > 30*time.Second+leaseTick {
			t.Errorf("the loss was noticed after %s, want soon after 30s", took)
		}
		cancel()
		<-done
	})
}

// service stands for the other end: it grants what reaches it in time.
type service struct {
	// there and back are how long a call and its answer are under way.
	there, back time.Duration

	mu   sync.Mutex
	ends time.Time
}

func (s *service) modify(ctx context.Context, _ []string, deadline time.Duration) error {
	if !wait(ctx, s.there) {
		return ctx.Err()
	}
	s.mu.Lock()
	if now := time.Now(); now.Before(s.ends) {
		s.ends = now.Add(deadline)
	}
	s.mu.Unlock()
	if !wait(ctx, s.back) {
		return ctx.Err()
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Calls and answers may be late by two thirds of a lease: what the service has
// granted is not given up, and nothing is thought ours that is not. With
// answers that come even later the lease is given up, although the service
// goes on granting it: nobody can know.
func TestSlowAnswersCostNoLease(t *testing.T) {
	for _, tt := range []struct {
		there, back time.Duration
		lost        bool
	}{
		{there: 20 * time.Second},
		{back: 20 * time.Second},
		{there: 10 * time.Second, back: 10 * time.Second},
		{back: 29 * time.Second, lost: true},
		{there: 29 * time.Second, lost: true},
	} {
		t.Run(fmt.Sprintf("%s there, %s back", tt.there, tt.back), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				far := &service{there: tt.there, back: tt.back, ends: begin.Add(30 * time.Second)}
				l := newLeases(30*time.Second, time.Hour, far.modify)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); l.run(ctx) }()
				a := l.add("a")
				for d := time.Second; d < 5*time.Minute && !isLost(a); d += time.Second {
					at(begin, d)
					l.mu.Lock()
					far.mu.Lock()
					if a.ends.After(far.ends) {
						t.Errorf("after %s the lease is thought to last until %s, the service says %s", d, a.ends.Sub(begin), far.ends.Sub(begin))
					}
					far.mu.Unlock()
					l.mu.Unlock()
				}
				if got := isLost(a); got != tt.lost {
					t.Errorf("lost: got %t, want %t", got, tt.lost)
				}
				cancel()
				<-done
			})
		})
	}
}

// On an exactly-once subscription a call fails for some of its IDs. The others
// are extended; what is permanently refused is lost at once.
func TestExtensionIsGrantedForEachIDByItself(t *testing.T) {
	answer, err := status.New(codes.FailedPrecondition, "some failed").WithDetails(&errdetails.ErrorInfo{
		Reason: "EXACTLY_ONCE_ACKID_FAILURE", Domain: "pubsub.googleapis.com",
		Metadata: map[string]string{
			"gone":  "PERMANENT_FAILURE_INVALID_ACK_ID",
			"later": "TRANSIENT_FAILURE_UNORDERED_ACK_ID",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, k *keeper, begin time.Time) {
		k.fail = func(now time.Duration) error {
			if now < 12*time.Second {
				return answer.Err()
			}
			return nil
		}
		good, gone, later := k.add("good"), k.add("gone"), k.add("later")
		at(begin, 11*time.Second)
		if !isLost(gone) || k.drop(gone) {
			t.Error("gone is still ours, although the service says that it is not")
		}
		at(begin, 35*time.Second)
		if isLost(good) || isLost(later) {
			t.Errorf("lost: good %t, later %t; want both kept", isLost(good), isLost(later))
		}
		for _, call := range k.calls[1:] {
			if call.at < 15*time.Second && slices.Contains(call.ids, "good") {
				t.Errorf("good was extended again at %s, although the first extension was granted", call.at)
			}
		}
	})
}
