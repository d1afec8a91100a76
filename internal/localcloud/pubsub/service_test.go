package pubsub_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	gpubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker/brokertest"
	"github.com/spotbatch/spotbatch/internal/localcloud/pubsub"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The official client starts both and stops them late or never.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		// It tries an ack again whose result nobody waits for any more.
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).retryAcks"))
}

const (
	project = "demo"
	topic   = "projects/demo/topics/items"
	sub     = "projects/demo/subscriptions/workers"
	dead    = "projects/demo/topics/items-dead"
	deadSub = "projects/demo/subscriptions/items-dead"
)

// bed is a server on a real listener, a clock that the test moves, and what
// talks to the server: the official client, and the bare API for what the
// official client hides.
type bed struct {
	broker  *broker.Broker
	clock   *brokertest.Clock
	service *pubsub.Service
	server  *grpc.Server
	addr    string

	client *gpubsub.Client
	pub    pubsubpb.PublisherClient
	sub    pubsubpb.SubscriberClient
}

// setup starts a server. Nothing happens to leases unless the test moves the clock.
func setup(t testing.TB) *bed {
	t.Helper()
	clock := brokertest.NewClock()
	b := setupOn(t, broker.New(clock, nil))
	b.clock = clock
	return b
}

func setupOn(t testing.TB, br *broker.Broker) *bed {
	t.Helper()
	b := &bed{broker: br, service: pubsub.New(br), server: grpc.NewServer(pubsub.ServerOptions()...)}
	b.service.Register(b.server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(l) }()
	t.Cleanup(func() {
		b.service.Close()
		b.server.Stop()
		b.broker.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	b.client = b.newClient(t)
	conn := b.dial(t)
	b.pub, b.sub = pubsubpb.NewPublisherClient(conn), pubsubpb.NewSubscriberClient(conn)
	return b
}

func (b *bed) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(b.addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(20<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// newClient returns a further official client with a connection of its own.
func (b *bed) newClient(t testing.TB) *gpubsub.Client {
	t.Helper()
	c, err := gpubsub.NewClient(context.Background(), project, option.WithGRPCConn(b.dial(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// create makes the topic and a subscription; change may alter the latter.
func (b *bed) create(t testing.TB, change func(*pubsubpb.Subscription)) {
	t.Helper()
	b.createTopic(t, topic)
	s := &pubsubpb.Subscription{Name: sub, Topic: topic}
	if change != nil {
		change(s)
	}
	if _, err := b.client.SubscriptionAdminClient.CreateSubscription(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) createTopic(t testing.TB, name string) {
	t.Helper()
	if _, err := b.client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// publish sends n messages in one request, with data "0", "1" and so on.
func (b *bed) publish(t testing.TB, n int) {
	t.Helper()
	req := &pubsubpb.PublishRequest{Topic: topic}
	for i := range n {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i)})
	}
	if _, err := b.pub.Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) counts(t testing.TB) broker.Counts {
	t.Helper()
	c, err := b.broker.Counts(sub)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls until ok, or fails after 10 s.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// receive runs Receive of the official client until the test ends or stop is called.
func receive(t testing.TB, s *gpubsub.Subscriber, handle func(*gpubsub.Message)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Receive(ctx, func(_ context.Context, m *gpubsub.Message) { handle(m) })
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Receive: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}
