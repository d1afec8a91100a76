package pull_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// streams sees the streams that a client opens.
type streams struct {
	opened atomic.Int32
	// responses counts what was read from all of them.
	responses atomic.Int32
	// refuse is asked before each opening.
	refuse atomic.Pointer[func(ctx context.Context) error]
	// last is the error that ended the last stream.
	last atomic.Pointer[error]
	// slowClose is how long the end of a stream takes to leave.
	slowClose time.Duration
}

func (s *streams) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
		cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if refuse := s.refuse.Load(); refuse != nil {
			if err := (*refuse)(ctx); err != nil {
				return nil, err
			}
		}
		s.opened.Add(1)
		st, err := streamer(ctx, desc, cc, method, opts...)
		return &countingStream{st, s}, err
	}))
}

type countingStream struct {
	grpc.ClientStream
	streams *streams
}

func (c *countingStream) CloseSend() error {
	<-time.After(c.streams.slowClose)
	return c.ClientStream.CloseSend()
}

func (c *countingStream) RecvMsg(m any) error {
	err := c.ClientStream.RecvMsg(m)
	if err == nil {
		c.streams.responses.Add(1)
	} else {
		c.streams.last.Store(&err)
	}
	return err
}

// waitFor polls until cond holds, for at most 10 s.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("no %s within 10s", what)
		}
	}
}

// A stream that cannot be opened, or hangs while it is opened, does not hold
// up the settlements after the stop.
func TestStopWhileNoStreamCanBeOpened(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse func(ctx context.Context) error
	}{
		{"refused", func(context.Context) error { return status.Error(codes.Unavailable, "connection refused") }},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			var seen streams
			sub := open(t, b.cloud, names, seen.option())
			b.publish(t.Context(), 1)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			refused := make(chan struct{})
			var once sync.Once
			ended := make(chan error, 1)
			go func() {
				ended <- sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
					refuse := func(ctx context.Context) error {
						once.Do(func() { close(refused) })
						return tt.refuse(ctx)
					}
					seen.refuse.Store(&refuse)
					b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
					<-refused
					stop()
					return worker.Nack
				})
			}()
			<-refused
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Receive: %v", err)
				}
			case <-time.After(2 * time.Second):
				t.Fatal("Receive has not returned 2s after the stop")
			}
			b.wantCounts(1, 0, 0)
		})
	}
}

// Whatever a stream brings is read and its lease kept, also while there is no
// room for it: after a reconnect the service counts what is held from zero.
func TestDeliveriesBeyondTheRoomAreLeased(t *testing.T) {
	b := setup(t)
	var seen streams
	sub := open(t, b.cloud, names, seen.option())
	b.publish(t.Context(), 20) // as many as there is room for
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	release := make(chan struct{})
	var handled, most, now atomic.Int32
	ended := make(chan error)
	go func() {
		ended <- sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
			handled.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			<-release
			return worker.Ack
		})
	}()
	waitFor(t, "full house", func() bool { return handled.Load() == 20 })
	b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
	waitFor(t, "second stream", func() bool { return seen.opened.Load() >= 2 })
	for range 3 {
		before := seen.responses.Load()
		b.publish(t.Context(), 1)
		waitFor(t, "next response", func() bool { return seen.responses.Load() > before })
	}
	close(release)
	waitFor(t, "the rest", func() bool { return handled.Load() == 23 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := most.Load(); got != 20 {
		t.Errorf("%d deliveries were handled at once, want 20", got)
	}
	b.wantCounts(0, 0, 23)
}

// Two payloads that do not fit pull.max_outstanding_bytes together are handled
// one after the other.
func TestBytesInHandAreBounded(t *testing.T) {
	b := setup(t)
	p := b.client.Publisher("items")
	defer p.Stop()
	const n = 4
	for range n {
		if _, err := p.Publish(t.Context(), &pubsub.Message{Data: make([]byte, 600<<10)}).Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var handled, now atomic.Int32
	err := b.sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		if now.Add(1) > 1 {
			t.Error("two deliveries of 600 KiB are handled at once, with room for 1 MiB")
		}
		defer now.Add(-1)
		<-time.After(20 * time.Millisecond)
		if handled.Add(1) == n {
			stop()
		}
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	b.wantCounts(0, 0, n)
}

// Nothing is given back while the stream is still open, since it would be
// delivered to it again.
func TestStopClosesTheStreamBeforeItGivesBack(t *testing.T) {
	b := setup(t)
	seen := streams{slowClose: 100 * time.Millisecond}
	sub := open(t, b.cloud, names, seen.option())
	const n = 5
	b.publish(t.Context(), n)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var held sync.WaitGroup
	held.Add(n)
	err := sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		held.Done()
		held.Wait()
		stop()
		return worker.Nack
	})
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.client.SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subPath, MaxMessages: n})
	if err != nil || len(response.GetReceivedMessages()) != n {
		t.Fatalf("pull: %v, %v; want %d messages", response, err, n)
	}
	for _, m := range response.GetReceivedMessages() {
		if got := m.GetDeliveryAttempt(); got != 2 {
			t.Errorf("message %s is in its delivery %d, want 2", m.GetMessage().GetMessageId(), got)
		}
	}
}

// A stream that is cut takes with it what is on its way, leased to nobody.
func TestStopReadsTheStreamToItsEnd(t *testing.T) {
	b := setup(t)
	var seen streams
	sub := open(t, b.cloud, names, seen.option())
	b.publish(t.Context(), 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		stop()
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := *seen.last.Load(); !errors.Is(got, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", got)
	}
}

// What is held is extended at the service, long before its lease ends.
func TestHeldDeliveryIsExtended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t.Context(), 1)
	extended := make(chan int32, 8)
	seeUnary := option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if m, ok := request.(*pubsubpb.ModifyAckDeadlineRequest); ok {
			extended <- m.GetAckDeadlineSeconds()
		}
		return invoke(ctx, method, request, reply, cc, opts...)
	}))
	sub := open(t, b.cloud, names, seeUnary)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		select {
		case got := <-extended:
			if got != 10 {
				t.Errorf("extended by %d s, want pull.lease (10)", got)
			}
		case <-time.After(9 * time.Second):
			t.Error("not extended within 9 s of a lease of 10 s")
		}
		stop()
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	b.wantCounts(0, 0, 1)
}

// What waits for room at the stop is given back.
func TestStopGivesBackWhatWaitsForRoom(t *testing.T) {
	b := setup(t)
	var seen streams
	sub := open(t, b.cloud, names, seen.option())
	b.publish(t.Context(), 20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	release := make(chan struct{})
	var handled atomic.Int32
	ended := make(chan error)
	go func() {
		ended <- sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
			handled.Add(1)
			<-release
			return worker.Ack
		})
	}()
	waitFor(t, "full house", func() bool { return handled.Load() == 20 })
	b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
	waitFor(t, "second stream", func() bool { return seen.opened.Load() >= 2 })
	before := seen.responses.Load()
	b.publish(t.Context(), 1)
	waitFor(t, "next response", func() bool { return seen.responses.Load() > before })
	stop()
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b.wantCounts(1, 0, 20)
}

// A stop that came before the intake leaves the subscription alone.
func TestReceiveAfterTheStopOpensNoStream(t *testing.T) {
	b := setup(t)
	var seen streams
	sub := open(t, b.cloud, names, seen.option())
	b.publish(t.Context(), 1)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		t.Error("a delivery was handled")
		return worker.Nack
	})
	if err != nil || seen.opened.Load() != 0 {
		t.Errorf("Receive: got %v and %d streams, want nil and none", err, seen.opened.Load())
	}
}
