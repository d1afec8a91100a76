package pubsub_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	gpubsub "cloud.google.com/go/pubsub/v2"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

var payload = make([]byte, 100)

func benchMessage(i int) (data []byte, attrs map[string]string) {
	return append([]byte(nil), payload...), map[string]string{"run_id": "bench", "item_id": fmt.Sprint(i), "content_type": "application/json"}
}

func benchBed(tb *testing.B) *bed {
	b := setupOn(tb, broker.New(nil, nil))
	b.create(tb, nil)
	return b
}

// BenchmarkPublish publishes with the official client, as a publisher of ours
// does: many calls in flight, batched by the client.
func BenchmarkPublish(tb *testing.B) {
	b := benchBed(tb)
	p := b.client.Publisher(topic)
	p.PublishSettings.FlowControlSettings = gpubsub.FlowControlSettings{
		MaxOutstandingMessages: 10_000, MaxOutstandingBytes: -1, LimitExceededBehavior: gpubsub.FlowControlBlock,
	}
	tb.ResetTimer()
	results := make([]*gpubsub.PublishResult, tb.N)
	for i := range tb.N {
		data, attrs := benchMessage(i)
		results[i] = p.Publish(tb.Context(), &gpubsub.Message{Data: data, Attributes: attrs})
	}
	p.Flush()
	for _, r := range results {
		if _, err := r.Get(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	tb.ReportMetric(float64(tb.N)/tb.Elapsed().Seconds(), "msgs/s")
	tb.StopTimer()
	p.Stop()
}

// BenchmarkReceive receives and acks with the official client. What is received
// is published anew, so that the backlog keeps its size.
func BenchmarkReceive(tb *testing.B) {
	for _, backlog := range []int{10_000, 1_000_000} {
		tb.Run(fmt.Sprint("backlog=", backlog), func(tb *testing.B) {
			b := benchBed(tb)
			b.fill(tb, backlog)
			s := b.client.Subscriber(sub)
			s.ReceiveSettings.MaxOutstandingMessages = 10_000
			s.ReceiveSettings.NumGoroutines = 1
			ctx, cancel := context.WithCancel(tb.Context())
			defer cancel()
			var got atomic.Int64
			tb.ResetTimer()
			err := s.Receive(ctx, func(_ context.Context, m *gpubsub.Message) {
				m.Ack()
				n := got.Add(1)
				if n%1000 == 0 {
					b.fill(tb, 1000)
				}
				if n == int64(tb.N) {
					cancel()
				}
			})
			if err != nil {
				tb.Fatal(err)
			}
			tb.ReportMetric(float64(b.counts(tb).Acked)/tb.Elapsed().Seconds(), "msgs/s")
		})
	}
}

func (b *bed) fill(tb *testing.B, n int) {
	for i := 0; i < n; i += 1000 {
		msgs := make([]*broker.Message, min(1000, n-i))
		for j := range msgs {
			data, attrs := benchMessage(i + j)
			msgs[j] = &broker.Message{Data: data, Attributes: attrs}
		}
		if _, err := b.broker.Publish(topic, msgs); err != nil {
			tb.Fatal(err)
		}
	}
}
