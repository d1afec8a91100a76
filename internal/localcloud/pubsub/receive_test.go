package pubsub_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	gpubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// withDeadLetter gives a subscription a dead-letter policy of 5 attempts.
func withDeadLetter(s *pubsubpb.Subscription) {
	s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 5}
}

func TestPublishReceiveAck(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprint("compressed=", compress), func(t *testing.T) {
			b := setup(t)
			b.create(t, nil)
			p := b.client.Publisher(topic)
			p.PublishSettings.EnableCompression = compress
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
			stop := receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
				mu.Lock()
				got[m.Attributes["item_id"]] = string(m.Data)
				mu.Unlock()
				if m.DeliveryAttempt != nil {
					t.Error("a delivery attempt without a dead-letter policy")
				}
				m.Ack()
			})
			eventually(t, "all acked", func() bool { return b.counts(t).Acked == n })
			stop()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// The largest legal request arrives, and leaves again in a response.
func TestLargestMessage(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	req := &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, 9_999_900)}}}
	if _, err := b.pub.Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 1)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
		got <- m.Data
		m.Ack()
	})
	if data := <-got; !bytes.Equal(data, req.GetMessages()[0].GetData()) {
		t.Errorf("got %d bytes that differ from what was published", len(data))
	}
}

// The holder dies without a word; another subscriber gets the message when the
// lease has run out, and not before.
func TestExpiredLeaseGoesToTheOtherSubscriber(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	b.publish(t, 1)
	dying := b.stream(t, func(r *pubsubpb.StreamingPullRequest) { r.StreamAckDeadlineSeconds = 60 })
	dying.next(t, 1)
	dying.cancel()
	eventually(t, "the stream is gone", func() bool { return b.counts(t).Consumers == 0 })

	got := make(chan *gpubsub.Message, 10)
	receive(t, b.newClient(t).Subscriber(sub), func(m *gpubsub.Message) { m.Ack(); got <- m })
	eventually(t, "the other subscriber is there", func() bool { return b.counts(t).Consumers == 1 })
	b.clock.Advance(59 * time.Second)
	if c := b.counts(t); c.Leased != 1 {
		t.Errorf("after 59 s: got %+v, want the lease to hold", c)
	}
	b.clock.Advance(time.Second)
	if m := <-got; string(m.Data) != "0" {
		t.Errorf("got %q, want 0", m.Data)
	}
	eventually(t, "acked", func() bool { return b.counts(t).Acked == 1 })
}

func TestNackRedeliversWithAttempt(t *testing.T) {
	b := setup(t)
	b.createTopic(t, dead)
	b.create(t, withDeadLetter)
	b.publish(t, 1)
	attempts := make(chan int, 10)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
		if m.DeliveryAttempt == nil {
			t.Error("no delivery attempt in spite of the dead-letter policy")
			m.Ack()
			return
		}
		attempts <- *m.DeliveryAttempt
		if *m.DeliveryAttempt < 3 {
			m.Nack()
			return
		}
		m.Ack()
	})
	for want := 1; want <= 3; want++ {
		if got := <-attempts; got != want {
			t.Errorf("attempt: got %d, want %d", got, want)
		}
	}
	eventually(t, "acked", func() bool { return b.counts(t).Acked == 1 })
}

func TestDeadLetterAfterMaxAttempts(t *testing.T) {
	b := setup(t)
	b.createTopic(t, dead)
	b.create(t, withDeadLetter)
	if _, err := b.client.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: deadSub, Topic: dead}); err != nil {
		t.Fatal(err)
	}
	b.publish(t, 1)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) { m.Nack() })
	letters := make(chan *gpubsub.Message, 1)
	receive(t, b.client.Subscriber(deadSub), func(m *gpubsub.Message) { m.Ack(); letters <- m })
	m := <-letters
	for key, want := range map[string]string{
		broker.AttrSourceDeliveryCount: "5", broker.AttrSourceSubscription: "workers", broker.AttrSourceSubscriptionProject: project,
	} {
		if got := m.Attributes[key]; got != want {
			t.Errorf("attribute %s: got %q, want %q", key, got, want)
		}
	}
	const form = "2006-01-02T15:04:05.000+00:00" // as the service writes it
	if got, want := m.Attributes[broker.AttrSourcePublishTime], b.clock.Now().UTC().Format(form); got != want {
		t.Errorf("publish time at the source: got %q, want %q", got, want)
	}
	if c := b.counts(t); c.DeadLettered != 1 || c.Ready+c.Leased != 0 {
		t.Errorf("at the source: got %+v, want it gone", c)
	}
}

// 40 messages and two subscribers with 8 slots: both are busy at the same time.
func TestFairSharing(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	var mu sync.Mutex
	held := map[int]int{}
	release := make(chan struct{})
	for who := range 2 {
		s := b.newClient(t).Subscriber(sub)
		s.ReceiveSettings.MaxOutstandingMessages = 8
		s.ReceiveSettings.NumGoroutines = 1
		receive(t, s, func(m *gpubsub.Message) {
			mu.Lock()
			held[who]++
			mu.Unlock()
			<-release
			m.Ack()
		})
	}
	eventually(t, "both streams are open", func() bool { return b.counts(t).Consumers == 2 })
	b.publish(t, 40)
	full := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return held[0] == 8 && held[1] == 8
	}
	eventually(t, "both hold 8", full)
	if c := b.counts(t); c.Leased != 16 {
		t.Errorf("leased: got %d, want 16: the server sends no more than is asked for", c.Leased)
	}
	close(release)
	eventually(t, "all acked", func() bool { return b.counts(t).Acked == 40 })
}

// The client traces a message by attributes whose keys begin with "googclient_".
func TestTracedPublish(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	_, err := b.pub.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{
		{Data: []byte("x"), Attributes: map[string]string{"googclient_traceparent": "00-1-2-00"}},
	}})
	if err != nil {
		t.Error(err)
	}
}
