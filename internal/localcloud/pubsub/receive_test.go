package pubsub_test

import (
	"fmt"
	"sync"
	"testing"

	gpubsub "cloud.google.com/go/pubsub/v2"
)

func TestPublishReceiveAck(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	p := b.client.Publisher(topic)
	defer p.Stop()
	const n = 500
	want := make(map[string]string)
	var results []*gpubsub.PublishResult
	for i := range n {
		m := &gpubsub.Message{Data: fmt.Appendf(nil, "payload %d", i), Attributes: map[string]string{"item_id": fmt.Sprint(i)}}
		want[fmt.Sprint(i)] = string(m.Data)
		results = append(results, p.Publish(t.Context(), m))
	}
	for _, r := range results {
		if _, err := r.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := make(map[string]string)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
		mu.Lock()
		got[m.Attributes["item_id"]] = string(m.Data)
		mu.Unlock()
		if m.DeliveryAttempt != nil {
			t.Error("delivery attempt without a dead-letter policy")
		}
		m.Ack()
	})
	eventually(t, "all acked", func() bool { return b.counts(t).Acked == n })
	mu.Lock()
	defer mu.Unlock()
	for id, data := range want {
		if got[id] != data {
			t.Errorf("item %s: got %q, want %q", id, got[id], data)
		}
	}
}
