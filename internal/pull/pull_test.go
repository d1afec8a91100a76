package pull_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/pull"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const (
	subPath  = "projects/demo/subscriptions/items-workers"
	deadPath = "projects/demo/subscriptions/items-dead"
)

var names = config.PubSub{Topic: "items", Subscription: "items-workers", DeadLetterTopic: "items-dead"}

// bench is a localcloud with topic and subscriptions, and an open Subscription.
type bench struct {
	t      *testing.T
	cloud  *localcloud.Server
	client *pubsub.Client
	sub    *pull.Subscription
}

func setup(t *testing.T) *bench {
	t.Helper()
	ctx := t.Context()
	cloud := localcloudtest.Start(t)
	opts := localcloudtest.PubSubOptions(cloud)
	client, err := pubsub.NewClient(ctx, "demo", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	for _, pair := range [][2]string{{"items-dead", "items-dead"}, {"items", "items-workers"}} {
		topic, sub := pair[0], pair[1]
		if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/demo/topics/" + topic}); err != nil {
			t.Fatal(err)
		}
		request := &pubsubpb.Subscription{Name: "projects/demo/subscriptions/" + sub, Topic: "projects/demo/topics/" + topic, AckDeadlineSeconds: 10}
		if topic == "items" {
			request.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: "projects/demo/topics/items-dead", MaxDeliveryAttempts: 100}
		}
		if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	return &bench{t: t, cloud: cloud, client: client, sub: open(t, cloud, names)}
}

func open(t *testing.T, cloud *localcloud.Server, names config.PubSub, opts ...option.ClientOption) *pull.Subscription {
	t.Helper()
	deps := pull.Deps{Log: slog.New(slog.DiscardHandler), Meter: metricnoop.NewMeterProvider(), Tracer: noop.NewTracerProvider()}
	cfg := config.Pull{MaxOutstanding: 20, MaxOutstandingBytes: 1 << 20, Lease: 10 * time.Second, MaxLease: time.Minute}
	sub, err := pull.Open(t.Context(), "demo", names, cfg, deps, append(localcloudtest.PubSubOptions(cloud), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	return sub
}

func (b *bench) publish(ctx context.Context, n int) {
	b.t.Helper()
	p := b.client.Publisher("items")
	defer p.Stop()
	for i := range n {
		m := &pubsub.Message{Data: fmt.Append(nil, i), Attributes: map[string]string{"n": fmt.Sprint(i)}}
		if _, err := p.Publish(ctx, m).Get(ctx); err != nil {
			b.t.Fatal(err)
		}
	}
}

// pullDead takes one message from the subscription of the dead-letter topic.
func (b *bench) pullDead() *pubsubpb.PubsubMessage {
	b.t.Helper()
	admin := b.client.SubscriptionAdminClient
	response, err := admin.Pull(b.t.Context(), &pubsubpb.PullRequest{Subscription: deadPath, MaxMessages: 1})
	if err != nil || len(response.GetReceivedMessages()) != 1 {
		b.t.Fatalf("pull: %v, %v", response, err)
	}
	m := response.GetReceivedMessages()[0]
	if err := admin.Acknowledge(b.t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: deadPath, AckIds: []string{m.GetAckId()}}); err != nil {
		b.t.Fatal(err)
	}
	return m.GetMessage()
}

func (b *bench) counts() broker.Counts {
	b.t.Helper()
	c, err := b.cloud.Broker().Counts(subPath)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// wantCounts checks what the server says of the workers' subscription.
func (b *bench) wantCounts(ready, leased, acked int) {
	b.t.Helper()
	c := b.counts()
	if int(c.Ready) != ready || int(c.Leased) != leased || int(c.Acked) != acked {
		b.t.Errorf("server: got %d ready, %d leased, %d acked; want %d, %d, %d", c.Ready, c.Leased, c.Acked, ready, leased, acked)
	}
}

// Everything that is settled after the stop has reached the server when
// Receive returns: with room for more deliveries, and with none.
func TestStopSendsEverySettlement(t *testing.T) {
	for _, tt := range []struct {
		name      string
		published int
		verdict   func(n string) worker.Settlement
		ready     int
		leased    int
		acked     int
	}{
		{"acks", 10, func(string) worker.Settlement { return worker.Ack }, 0, 0, 10},
		{"nacks", 10, func(string) worker.Settlement { return worker.Nack }, 10, 0, 0},
		{"abandoned", 10, func(string) worker.Settlement { return worker.Abandon }, 0, 10, 0},
		{"acks when full", 60, func(string) worker.Settlement { return worker.Ack }, 40, 0, 20},
		{"nacks when full", 60, func(string) worker.Settlement { return worker.Nack }, 60, 0, 0},
		{"both", 10, func(n string) worker.Settlement {
			if n < "5" {
				return worker.Ack
			}
			return worker.Nack
		}, 5, 0, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.publish(t.Context(), tt.published)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			release := make(chan struct{})
			var held sync.WaitGroup
			held.Add(min(tt.published, 20))
			go func() {
				held.Wait()
				stop()
				close(release)
			}()
			err := b.sub.Receive(ctx, func(ctx context.Context, d *worker.Delivery) worker.Settlement {
				held.Done()
				<-release
				if ctx.Err() != nil {
					t.Error("the handler's context ended with the intake")
				}
				return tt.verdict(d.Attributes["n"])
			})
			if err != nil {
				t.Fatal(err)
			}
			b.wantCounts(tt.ready, tt.leased, tt.acked)
		})
	}
}

func TestNackedMessageComesBackWithTheNextAttempt(t *testing.T) {
	b := setup(t)
	b.publish(t.Context(), 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attempts []int
	var mu sync.Mutex
	err := b.sub.Receive(ctx, func(_ context.Context, d *worker.Delivery) worker.Settlement {
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, d.Attempt)
		if len(attempts) < 3 {
			return worker.Nack
		}
		stop()
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(attempts); got != "[1 2 3]" {
		t.Errorf("attempts: got %s, want [1 2 3]", got)
	}
	b.wantCounts(0, 0, 1)
}

func TestBuryKeepsTheMessageAndSaysWhy(t *testing.T) {
	b := setup(t)
	full := make(map[string]string)
	for i := range 100 {
		full[fmt.Sprintf("k%03d", i)] = "v"
	}
	for _, tt := range []struct {
		name      string
		attrs     map[string]string
		reason    string
		wantAttrs int
	}{
		{"plain", map[string]string{"a": "b"}, "no run_id", 2},
		{"empty", nil, "no run_id", 1},
		{"as many attributes as there may be", full, "no run_id", 100},
		{"long reason", nil, strings.Repeat("ü", 1000), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &worker.Delivery{Data: []byte("payload"), Attributes: tt.attrs}
			if err := b.sub.Bury(t.Context(), d, tt.reason); err != nil {
				t.Fatal(err)
			}
			got := b.pullDead()
			reason := got.GetAttributes()[pull.AttrReason]
			if string(got.GetData()) != "payload" || len(got.GetAttributes()) != tt.wantAttrs ||
				reason == "" || !strings.HasPrefix(tt.reason, reason) || !utf8.ValidString(reason) {
				t.Errorf("buried: data %q, %d attributes, reason %q", got.GetData(), len(got.GetAttributes()), reason)
			}
		})
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	b := setup(t)
	if err := b.sub.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, tt := range []struct {
		names config.PubSub
		want  string
	}{
		{
			config.PubSub{Subscription: "nope", DeadLetterTopic: "items-dead"},
			"pubsub.subscription: projects/demo/subscriptions/nope does not exist; create it with `publisher setup`",
		},
		{
			config.PubSub{Subscription: "items-workers", DeadLetterTopic: "nope"},
			"pubsub.dead_letter_topic: projects/demo/topics/nope does not exist; create it with `publisher setup`",
		},
	} {
		err := open(t, b.cloud, tt.names).Check(t.Context())
		if err == nil || err.Error() != tt.want || !errors.Is(err, worker.ErrPermanent) {
			t.Errorf("Check: got %v, want %s, and to be permanent", err, tt.want)
		}
	}
}

// What may pass is not permanent, and one call of Check is one try.
func TestCheckThatMaySucceedLater(t *testing.T) {
	b := setup(t)
	for _, code := range []codes.Code{codes.Unavailable, codes.Unauthenticated, codes.Internal, codes.DeadlineExceeded} {
		b.cloud.Faults().Add(fault.Rule{Method: "GetSubscription", Code: code, Count: 1})
		if err := b.sub.Check(t.Context()); status.Code(err) != code || errors.Is(err, worker.ErrPermanent) {
			t.Errorf("Check: got %v, want %s, and not to be permanent", err, code)
		}
		if err := b.sub.Check(t.Context()); err != nil {
			t.Errorf("Check again: %v", err)
		}
	}
}

// A stream that the service ends is opened again, and what is held meanwhile
// is settled as if nothing had happened.
func TestStreamThatEndsIsOpenedAgain(t *testing.T) {
	b := setup(t)
	b.publish(t.Context(), 5)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var seen atomic.Int32
	err := b.sub.Receive(ctx, func(ctx context.Context, _ *worker.Delivery) worker.Settlement {
		switch seen.Add(1) {
		case 5:
			b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
			b.publish(ctx, 5)
		case 10:
			stop()
		}
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	b.wantCounts(0, 0, 10)
}

// An intake that no new stream would cure ends, with what is held settled.
func TestSubscriptionThatIsDeletedEndsTheIntake(t *testing.T) {
	b := setup(t)
	b.publish(t.Context(), 1)
	err := b.sub.Receive(t.Context(), func(ctx context.Context, _ *worker.Delivery) worker.Settlement {
		request := &pubsubpb.DeleteSubscriptionRequest{Subscription: subPath}
		if err := b.client.SubscriptionAdminClient.DeleteSubscription(ctx, request); err != nil {
			t.Error(err)
		}
		return worker.Ack
	})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), subPath) {
		t.Errorf("Receive: got %v, want NotFound with the subscription's name", err)
	}
}

// The trace of a message is the one of its publisher.
func TestDeliveryIsInThePublishersTrace(t *testing.T) {
	b := setup(t)
	p := b.client.Publisher("items")
	defer p.Stop()
	m := &pubsub.Message{Data: []byte("x"), Attributes: map[string]string{
		"googclient_traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
	}}
	if _, err := p.Publish(t.Context(), m).Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got trace.SpanContext
	err := b.sub.Receive(ctx, func(ctx context.Context, _ *worker.Delivery) worker.Settlement {
		got = trace.SpanContextFromContext(ctx)
		stop()
		return worker.Ack
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "0123456789abcdef0123456789abcdef"; got.TraceID().String() != want {
		t.Errorf("trace: got %s, want %s", got.TraceID(), want)
	}
}
