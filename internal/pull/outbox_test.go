package pull

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// call is one call that an outbox made.
type call struct {
	At  time.Duration
	Ack bool
	IDs []string
}

// sendAllOf puts settlements at once, closes the outbox and returns the calls
// until it is empty. answer decides what each call gets.
func sendAllOf(t *testing.T, answer func(call) error, settlements ...settlement) []call {
	t.Helper()
	var calls []call
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		o := newOutbox(slog.New(slog.DiscardHandler), func() {}, func(_ context.Context, batch []settlement) error {
			c := call{At: time.Since(begin), Ack: batch[0].ack}
			for _, s := range batch {
				c.IDs = append(c.IDs, s.ackID)
			}
			calls = append(calls, c)
			return answer(calls[len(calls)-1])
		})
		for i := range settlements {
			if settlements[i].until.IsZero() {
				settlements[i].until = begin.Add(30 * time.Second)
			} else {
				settlements[i].until = begin.Add(settlements[i].until.Sub(time.Unix(0, 0)))
			}
		}
		done := make(chan struct{})
		go func() { defer close(done); o.run(t.Context()) }()
		synctest.Wait()
		o.put(settlements...)
		synctest.Wait()
		time.Sleep(linger)
		o.close()
		<-done
	})
	return calls
}

// after is a lease that ends so long after the start.
func after(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

func granted(call) error { return nil }

func TestOutboxSendsTogetherAndNacksFirst(t *testing.T) {
	got := sendAllOf(t, granted,
		settlement{ackID: "a", ack: true}, settlement{ackID: "n"}, settlement{ackID: "b", ack: true})
	want := []call{
		{linger, false, []string{"n"}},
		{linger, true, []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestOutboxCutsLargeCalls(t *testing.T) {
	var all []settlement
	for i := range 2*idsPerCall + 1 {
		all = append(all, settlement{ackID: fmt.Sprint(i), ack: true})
	}
	var sizes []int
	for _, c := range sendAllOf(t, granted, all...) {
		sizes = append(sizes, len(c.IDs))
	}
	if want := []int{idsPerCall, idsPerCall, 1}; !slices.Equal(sizes, want) {
		t.Errorf("calls of %v IDs, want %v", sizes, want)
	}
}

func TestOutboxTriesAgainUntilTheLeaseIsOver(t *testing.T) {
	unavailable := status.Error(codes.Unavailable, "try later")
	for _, tt := range []struct {
		name   string
		answer func(c call) error
		until  time.Time
		want   []time.Duration
	}{
		{"twice unavailable", func(c call) error {
			if c.At < 200*time.Millisecond {
				return unavailable
			}
			return nil
		}, after(30 * time.Second), []time.Duration{5 * time.Millisecond, 105 * time.Millisecond, 305 * time.Millisecond}},
		{
			"unavailable for ever", func(call) error { return unavailable }, after(time.Second),
			[]time.Duration{5 * time.Millisecond, 105 * time.Millisecond, 305 * time.Millisecond, 705 * time.Millisecond},
		},
		{
			"refused", func(call) error { return status.Error(codes.InvalidArgument, "bad id") }, after(30 * time.Second),
			[]time.Duration{5 * time.Millisecond},
		},
		{"lease over before the first call", granted, after(time.Millisecond), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []time.Duration
			for _, c := range sendAllOf(t, tt.answer, settlement{ackID: "a", ack: true, until: tt.until}) {
				got = append(got, c.At)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("calls at %v, want %v", got, tt.want)
			}
		})
	}
}

// An exactly-once subscription answers for each ID.
func TestOutboxReadsTheAnswerForEachID(t *testing.T) {
	answer, err := status.New(codes.FailedPrecondition, "some failed").WithDetails(&errdetails.ErrorInfo{
		Reason: "EXACTLY_ONCE_ACKID_FAILURE", Domain: "pubsub.googleapis.com",
		Metadata: map[string]string{
			"b": "TRANSIENT_FAILURE_UNORDERED_ACK_ID",
			"c": "PERMANENT_FAILURE_INVALID_ACK_ID",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	first := true
	got := sendAllOf(t, func(call) error {
		if first {
			first = false
			return answer.Err()
		}
		return nil
	}, settlement{ackID: "a", ack: true}, settlement{ackID: "b", ack: true}, settlement{ackID: "c", ack: true})
	if len(got) != 2 || !slices.Equal(got[1].IDs, []string{"b"}) {
		t.Errorf("calls: %v, want a second one for b alone", got)
	}
}

// After an outage settlements go out soon, whatever its length: a drain has no
// time for long pauses, nor for calls that hang.
func TestOutboxIsPromptAfterAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(ctx context.Context) error
	}{
		{"refusals", func(context.Context) error { return status.Error(codes.Unavailable, "try later") }},
		{"silence", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				const outage = 55 * time.Second
				sent := make(map[string]time.Duration)
				o := newOutbox(slog.New(slog.DiscardHandler), func() {}, func(ctx context.Context, batch []settlement) error {
					if time.Since(begin) < outage {
						return tt.fail(ctx)
					}
					for _, s := range batch {
						sent[s.ackID] = time.Since(begin)
					}
					return nil
				})
				done := make(chan struct{})
				go func() { defer close(done); o.run(t.Context()) }()
				o.put(settlement{ackID: "old", until: begin.Add(time.Hour)})
				time.Sleep(outage)
				o.put(settlement{ackID: "new", until: begin.Add(time.Hour)})
				o.close()
				<-done
				for _, id := range []string{"old", "new"} {
					if late := sent[id] - outage; late < 0 || late > 4*time.Second {
						t.Errorf("%s was sent %s after the end of the outage, want within 4s", id, late)
					}
				}
			})
		})
	}
}
