package admin_test

import (
	"fmt"
	"testing"

	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// BenchmarkHistory publishes, delivers and acks messages with and without a history.
func BenchmarkHistory(tb *testing.B) {
	for _, name := range []string{"off", "on"} {
		tb.Run(name, func(tb *testing.B) {
			const batch = 100
			var recorder broker.Recorder
			if name == "on" {
				recorder = admin.NewHistory(0) // a new one, since a new broker numbers its messages anew
			}
			b := broker.New(nil, recorder)
			defer b.Close()
			must(tb, b.CreateTopic(broker.TopicConfig{Name: topic}))
			must(tb, b.CreateSubscription(broker.SubscriptionConfig{Name: subscription, Topic: topic, AckDeadline: 1e10}))
			c, err := b.Attach(subscription, broker.ConsumerConfig{Name: "c", MaxMessages: batch})
			must(tb, err)
			defer c.Close()
			published := 0
			tb.ReportAllocs()
			for i := 0; tb.Loop(); i++ {
				if i%batch != 0 {
					continue
				}
				messages := make([]*broker.Message, batch)
				for j := range messages {
					published++
					messages[j] = &broker.Message{Data: make([]byte, 100), Attributes: map[string]string{"run_id": "bench", "item_id": fmt.Sprint(published)}}
				}
				_, err := b.Publish(topic, messages)
				must(tb, err)
				deliveries, err := c.Take(nil, batch, 1<<20)
				must(tb, err)
				ids := make([]broker.AckID, 0, batch)
				for _, d := range deliveries {
					ids = append(ids, d.AckID)
				}
				ack(tb, b, ids)
			}
			tb.ReportMetric(float64(tb.N)/tb.Elapsed().Seconds(), "msgs/s")
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func ack(tb testing.TB, b *broker.Broker, ids []broker.AckID) {
	tb.Helper()
	_, _, err := b.Ack(subscription, ids)
	must(tb, err)
}
