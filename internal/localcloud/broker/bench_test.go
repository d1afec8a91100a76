package broker_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

const benchBatch = 100

var payload = make([]byte, 100)

func (b bench) fill(n int) {
	for n > 0 {
		msgs := make([]*broker.Message, min(n, 1000))
		for i := range msgs {
			msgs[i] = &broker.Message{
				Data:       append([]byte(nil), payload...),
				Attributes: map[string]string{"run_id": "bench", "item_id": fmt.Sprint(n - i), "content_type": "application/json"},
			}
		}
		_, err := b.Publish(topic, msgs)
		b.must(err)
		n -= len(msgs)
	}
}

// BenchmarkPublishTakeAck keeps a backlog constant: each round publishes,
// delivers and acks one message. The rate must not depend on the backlog.
func BenchmarkPublishTakeAck(tb *testing.B) {
	for _, backlog := range []int{10_000, 1_000_000} {
		tb.Run(fmt.Sprint("backlog=", backlog), func(tb *testing.B) {
			b := setup(tb, nil, nil, nil)
			b.fill(backlog)
			c := b.attach(benchBatch)
			var ds []broker.Delivery
			ids := make([]broker.AckID, 0, benchBatch)
			runtime.GC()
			tb.ReportAllocs()
			for i := 0; tb.Loop(); i++ {
				if i%benchBatch == 0 {
					b.fill(benchBatch)
					ds, _ = c.Take(ds[:0], benchBatch, 1<<20)
					ids = ids[:0]
					for _, d := range ds {
						ids = append(ids, d.AckID)
					}
					if stale, _, err := b.Ack(sub, ids); err != nil || len(stale) > 0 || len(ids) != benchBatch {
						tb.Fatalf("%d acks: stale %v, %v", len(ids), stale, err)
					}
				}
			}
			tb.ReportMetric(float64(tb.N)/tb.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// BenchmarkOrdered is BenchmarkPublishTakeAck with a backlog of 100,000 messages
// that have few or many ordering keys. The rate must not depend on how many.
func BenchmarkOrdered(tb *testing.B) {
	for _, keys := range []int{1, 1000, 100_000} {
		tb.Run(fmt.Sprint("keys=", keys), func(tb *testing.B) {
			b := setup(tb, nil, nil, ordered)
			published := 0
			fill := func(n int) {
				msgs := make([]*broker.Message, n)
				for i := range msgs {
					msgs[i] = &broker.Message{Data: payload, OrderingKey: fmt.Sprint(published % keys)}
					published++
				}
				_, err := b.Publish(topic, msgs)
				b.must(err)
			}
			fill(100_000)
			c := b.attach(benchBatch)
			var ds []broker.Delivery
			ids := make([]broker.AckID, 0, benchBatch)
			for i := 0; tb.Loop(); i++ {
				if i%benchBatch == 0 {
					fill(benchBatch)
					ds, _ = c.Take(ds[:0], benchBatch, 1<<20)
					ids = ids[:0]
					for _, d := range ds {
						ids = append(ids, d.AckID)
					}
					if stale, _, err := b.Ack(sub, ids); err != nil || len(stale) > 0 || len(ids) != benchBatch {
						tb.Fatalf("%d acks: stale %v, %v", len(ids), stale, err)
					}
				}
			}
		})
	}
}

// A waiting message costs less than 1 KB beyond its payload, attributes included.
func TestMemoryPerMessage(t *testing.T) {
	const n = 200_000
	before := heapInUse()
	b := setup(t, nil, nil, nil)
	b.fill(n)
	got := (float64(heapInUse())-float64(before))/n - float64(len(payload))
	b.Close()
	t.Logf("%.0f bytes a message beyond its payload", got)
	if got >= 1024 {
		t.Errorf("got %.0f bytes a message beyond its payload, want less than 1024", got)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
