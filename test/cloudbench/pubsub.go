package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/spotbatch/spotbatch/test/cluster"
)

const (
	payloadBytes = 100
	smallBacklog = 10_000
	largeBacklog = 1_000_000
	warmUp       = 100_000 // messages before the clock runs
	measured     = 300_000 // messages while it does
	rounds       = 5       // of which the median counts
	// outstanding is how many messages the client holds at most. It sends its acks
	// every 100 ms, so with its default of 1,000 it could not exceed 10,000 a second
	// against any server; with this many, the machine is the limit.
	outstanding = 50_000
)

func (b *bench) pubsub(ctx context.Context) error {
	small, err := b.newBacklog(ctx, smallBacklog)
	if err != nil {
		return err
	}
	defer small.close()
	large, err := b.newBacklog(ctx, largeBacklog)
	if err != nil {
		return err
	}
	defer large.close()
	// By turns, so that what else the machine does hits both.
	for range rounds {
		if err := errors.Join(small.round(ctx), large.round(ctx)); err != nil {
			return err
		}
	}
	b.atLeast("Pub/Sub: publish", median(small.published), 20_000, "messages/s")
	b.atLeast(fmt.Sprintf("Pub/Sub: receive and ack, backlog %d", smallBacklog), median(small.received), 10_000, "messages/s")
	b.atLeast(fmt.Sprintf("Pub/Sub: receive and ack, backlog %d", largeBacklog), median(large.received), 10_000, "messages/s")
	b.atLeast("Pub/Sub: the latter, as part of the former", median(large.received)/median(small.received), 0.8, "")
	b.atMost("Pub/Sub: memory a message beyond its payload", large.memory, 1024, "bytes")
	return nil
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

const (
	topic = "projects/bench/topics/items"
	sub   = "projects/bench/subscriptions/workers"
)

// backlog is a localcloud whose subscription never holds fewer than a number of
// messages.
type backlog struct {
	cloud  *cluster.Cluster
	client *pubsub.Client

	memory              float64   // of a message, in bytes beyond its payload
	published, received []float64 // messages a second in each round
}

// newBacklog starts a localcloud and publishes n messages.
func (b *bench) newBacklog(ctx context.Context, n int) (*backlog, error) {
	cloud, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	l := &backlog{cloud: cloud}
	if err := l.fill(ctx, n); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *backlog) fill(ctx context.Context, n int) (err error) {
	if l.client, err = pubsub.NewClient(ctx, "bench"); err != nil {
		return err
	}
	if _, err := l.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		return err
	}
	if _, err := l.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: sub, Topic: topic}); err != nil {
		return err
	}
	before, err := resident(l.cloud)
	if err != nil {
		return err
	}
	if _, err := publish(ctx, l.client.Publisher(topic), n); err != nil {
		return err
	}
	after, err := resident(l.cloud)
	l.memory = (after-before)/float64(n) - payloadBytes
	return err
}

// round publishes messages and receives as many.
func (l *backlog) round(ctx context.Context) error {
	published, err := publish(ctx, l.client.Publisher(topic), warmUp+measured)
	if err != nil {
		return err
	}
	received, err := receive(ctx, l.client.Subscriber(sub))
	l.published, l.received = append(l.published, published), append(l.received, received)
	return err
}

func (l *backlog) close() {
	if l.client != nil {
		_ = l.client.Close() // it has served its purpose
	}
	l.cloud.Close()
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
