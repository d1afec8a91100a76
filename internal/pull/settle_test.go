package pull_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// calls are the settlements that a client has sent, and what it is told of its
// extensions.
type calls struct {
	mu          sync.Mutex
	acks, nacks []string
	// noExtensions refuses every extension before it leaves.
	noExtensions bool
}

func (c *calls) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if err := c.see(request); err != nil {
			return err
		}
		return invoke(ctx, method, request, reply, cc, opts...)
	}))
}

func (c *calls) see(request any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := request.(type) {
	case *pubsubpb.AcknowledgeRequest:
		c.acks = append(c.acks, r.GetAckIds()...)
	case *pubsubpb.ModifyAckDeadlineRequest:
		if r.GetAckDeadlineSeconds() == 0 {
			c.nacks = append(c.nacks, r.GetAckIds()...)
		} else if c.noExtensions {
			return status.Error(codes.Unavailable, "no way to the service")
		}
	}
	return nil
}

func (c *calls) sent() (acks, nacks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.acks), slices.Clone(c.nacks)
}

// What is decided long after the stop is sent as well, before Receive returns.
func TestLateSettlementsReachTheService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		published int
	}{
		{"room for more", 19},
		{"no room", 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.publish(t.Context(), tt.published)
			held := min(tt.published, 20)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			late := make(chan struct{})
			var handled atomic.Int32
			err := b.sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
				n := int(handled.Add(1))
				if n == held {
					time.AfterFunc(300*time.Millisecond, func() { close(late) })
					stop()
				}
				<-late
				// One after the other, so that each may be the last to be sent.
				<-time.After(time.Duration(n) * 10 * time.Millisecond)
				return worker.Ack
			})
			if err != nil {
				t.Fatal(err)
			}
			b.wantCounts(tt.published-held, 0, held)
		})
	}
}

// The service never has more with us than pull.max_outstanding: there is one
// stream, and it says so.
func TestServiceKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen streams
	sub := open(t, b.cloud, names, seen.option())
	const n = 200
	b.publish(t.Context(), n)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var handled, most atomic.Int32
	err := sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement {
		counts, err := b.cloud.Broker().Counts(subPath)
		if err != nil {
			t.Error(err)
		}
		most.Store(max(most.Load(), int32(counts.Leased)))
		if counts.Leased > 20 {
			t.Errorf("the service has %d messages with us, want at most 20", counts.Leased)
		}
		if handled.Add(1) == n {
			stop()
		}
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() < 10 || seen.opened.Load() != 1 {
		t.Errorf("%d leased at most, on %d streams; want about 20 on one", most.Load(), seen.opened.Load())
	}
	b.wantCounts(0, 0, n)
}

// Streams that end, and acks whose call or answer is lost, cost no second
// delivery.
func TestAcksSurviveBrokenConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 200
	b.publish(t.Context(), n)
	for _, when := range []fault.When{fault.Before, fault.After} {
		b.cloud.Faults().Add(fault.Rule{Method: "Acknowledge", When: when, Code: codes.Unavailable, Probability: 0.3, Seed: 7})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var handled atomic.Int32
	err := b.sub.Receive(ctx, func(_ context.Context, d *worker.Delivery) worker.Settlement {
		if d.Attempt > 1 {
			t.Errorf("message %s came in delivery %d", d.Attributes["n"], d.Attempt)
		}
		switch seen := handled.Add(1); {
		case seen == n:
			stop()
		case seen%50 == 0:
			time.AfterFunc(5*time.Millisecond, func() {
				b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
			})
		}
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	b.wantCounts(0, 0, n)
}

// A stream that has brought something is followed by the next one at once, as
// often as that may happen: a service that closes streams has not failed.
func TestStreamThatBroughtSomethingIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 10
	b.publish(t.Context(), 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var handled atomic.Int32
	start := time.Now()
	err := b.sub.Receive(ctx, func(ctx context.Context, _ *worker.Delivery) worker.Settlement {
		if handled.Add(1) == n {
			stop()
			return worker.Ack
		}
		b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
		b.publish(ctx, 1)
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("%d streams took %s, want about 100ms each", n, took)
	}
	b.wantCounts(0, 0, n)
}

// A worker that lost its lease leaves the message to the one that has it now,
// whatever it would have done with it.
func TestLostLeaseIsLeftToTheNextWorker(t *testing.T) {
	t.Parallel()
	for _, what := range []worker.Settlement{worker.Nack, worker.Ack} {
		t.Run(what.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.publish(t.Context(), 1)
			first := &calls{noExtensions: true}
			a := open(t, b.cloud, names, first.option())
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			holdA, holdB := make(chan struct{}), make(chan struct{})
			gotA, gotB := make(chan (<-chan struct{}), 1), make(chan int, 1)
			endedA := make(chan struct{})
			var receiving sync.WaitGroup
			stopA, endA := context.WithCancel(ctx)
			defer endA()
			receiving.Go(func() {
				defer close(endedA)
				if err := a.Receive(stopA, func(_ context.Context, d *worker.Delivery) worker.Settlement {
					gotA <- d.Lost
					<-holdA
					return what
				}); err != nil {
					t.Error(err)
				}
			})
			lost := <-gotA
			endA() // it takes no second delivery
			receiving.Go(func() {
				if err := b.sub.Receive(ctx, func(_ context.Context, d *worker.Delivery) worker.Settlement {
					gotB <- d.Attempt
					<-holdB
					return worker.Ack
				}); err != nil {
					t.Error(err)
				}
			})
			if attempt := <-gotB; attempt != 2 {
				t.Errorf("the next worker has delivery %d, want 2", attempt)
			}
			<-lost
			close(holdA)
			<-endedA
			b.wantCounts(0, 1, 0)
			close(holdB)
			waitFor(t, "ack", func() bool { return b.counts().Acked == 1 })
			stop()
			receiving.Wait()
			if acks, nacks := first.sent(); len(acks)+len(nacks) != 0 {
				t.Errorf("the first worker sent acks %v and nacks %v after its lease", acks, nacks)
			}
		})
	}
}
