package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const (
	payloadBytes = 100
	smallBacklog = 10_000
	largeBacklog = 1_000_000
	warmUp       = 20_000  // messages before the clock runs
	measured     = 200_000 // messages while it does
	// outstanding is how many messages the client holds at most. It sends its acks
	// every 100 ms, so with its default of 1,000 it could not exceed 10,000 a second
	// against any server.
	outstanding = 10_000
)

func (b *bench) pubsub(ctx context.Context) error {
	_, rate, small, err := b.backlog(ctx, smallBacklog)
	if err != nil {
		return err
	}
	memory, _, large, err := b.backlog(ctx, largeBacklog)
	if err != nil {
		return err
	}
	b.atLeast("Pub/Sub: publish", rate, 20_000, "messages/s")
	b.atLeast(fmt.Sprintf("Pub/Sub: receive and ack, backlog %d", smallBacklog), small, 10_000, "messages/s")
	b.atLeast(fmt.Sprintf("Pub/Sub: receive and ack, backlog %d", largeBacklog), large, 10_000, "messages/s")
	b.atLeast("Pub/Sub: the latter, as part of the former", large/small, 0.8, "")
	b.atMost("Pub/Sub: memory a message beyond its payload", memory, 1024, "bytes")
	return nil
}

// backlog measures a subscription whose backlog never falls below n: the memory a
// message in bytes beyond its payload, and the messages a second that are
// published, and received and acked.
func (b *bench) backlog(ctx context.Context, n int) (memory, published, received float64, err error) {
	cloud, err := b.start(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	defer cloud.Close()
	client, err := pubsub.NewClient(ctx, "bench")
	if err != nil {
		return 0, 0, 0, err
	}
	defer client.Close() //nolint:errcheck // it has served its purpose
	const topic, sub = "projects/bench/topics/items", "projects/bench/subscriptions/workers"
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		return 0, 0, 0, err
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: sub, Topic: topic}); err != nil {
		return 0, 0, 0, err
	}

	before, err := resident(cloud)
	if err != nil {
		return 0, 0, 0, err
	}
	total := n + warmUp + measured
	if published, err = publish(ctx, client.Publisher(topic), total); err != nil {
		return 0, 0, 0, err
	}
	after, err := resident(cloud)
	if err != nil {
		return 0, 0, 0, err
	}
	memory = (after-before)/float64(total) - payloadBytes
	received, err = receive(ctx, client.Subscriber(sub))
	return memory, published, received, err
}

// publish sends n messages and returns how many a second were confirmed.
func publish(ctx context.Context, p *pubsub.Publisher, n int) (float64, error) {
	p.PublishSettings.FlowControlSettings = pubsub.FlowControlSettings{
		MaxOutstandingMessages: outstanding, MaxOutstandingBytes: -1, LimitExceededBehavior: pubsub.FlowControlBlock,
	}
	begin := time.Now()
	results := make(chan *pubsub.PublishResult, outstanding)
	var failed error
	var confirmed sync.WaitGroup
	confirmed.Go(func() {
		for r := range results {
			if _, err := r.Get(ctx); err != nil {
				failed = err
			}
		}
	})
	for range n {
		results <- p.Publish(ctx, &pubsub.Message{Data: make([]byte, payloadBytes)})
	}
	p.Stop()
	close(results)
	confirmed.Wait()
	return float64(n) / time.Since(begin).Seconds(), failed
}

// receive acks what comes and returns how many messages a second came while it
// was measured.
func receive(ctx context.Context, s *pubsub.Subscriber) (float64, error) {
	s.ReceiveSettings.MaxOutstandingMessages = outstanding
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var begin, end time.Time
	var count atomic.Int64
	err := s.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		m.Ack()
		switch count.Add(1) {
		case warmUp:
			begin = time.Now()
		case warmUp + measured:
			end = time.Now()
			cancel()
		}
	})
	if err == nil && end.IsZero() {
		err = fmt.Errorf("only %d messages came: %w", count.Load(), context.Cause(ctx))
	}
	return measured / end.Sub(begin).Seconds(), err
}
