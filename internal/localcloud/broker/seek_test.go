package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// Who asks where a message is learns that it is to be delivered again, and why.
func TestReturnedMessagesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := kinds{}
		b := setup(t, nil, got, func(c *broker.SubscriptionConfig) { c.Ordered, c.RetainAcked = true, true })
		start := time.Now()
		b.publishKeyed("a1 a2 a3 -1")
		c := b.attach(4)
		ids := map[string]broker.AckID{}
		for _, d := range b.take(c) {
			ids[string(d.Message.Data)] = d.AckID
		}
		c.Close()
		b.ack(ids["a3"])
		b.nack(ids["a1"])
		b.ack(ids["-1"])
		b.must(b.Seek(sub, start))
		want := kinds{
			"a1": {"published", "delivered", "nacked"},
			"a2": {"published", "delivered", "returned"},
			"a3": {"published", "delivered", "acked", "returned"},
			"-1": {"published", "delivered", "acked", "returned"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		b.check()
	})
}

func TestAckedMessagesAreNotRetainedAnyMore(t *testing.T) {
	run(t, func(c *broker.SubscriptionConfig) { c.RetainAcked = true }, func(b bench) {
		start := time.Now()
		b.publish("a b")
		c := b.attach(1)
		b.ack(b.takeOne(c, "a", 1).AckID)
		_, err := b.UpdateSubscription(sub, func(c *broker.SubscriptionConfig) error {
			c.RetainAcked = false
			return nil
		})
		b.must(err)
		b.takeOne(c, "b", 1)
		b.must(b.Seek(sub, start))
		c.Close()
		b.takeNone(b.attach(0))
	})
}

// A topic's messages are kept for its subscriptions, acked or not, wanted or not.
func TestSeekToWhatTheTopicRetains(t *testing.T) {
	run(t, func(c *broker.SubscriptionConfig) {
		c.Match = func(attributes map[string]string) bool { return attributes["no"] == "" }
	}, func(b bench) {
		_, err := b.UpdateTopic(topic, func(c *broker.TopicConfig) error {
			c.Retention = time.Hour
			return nil
		})
		b.must(err)
		start := time.Now()
		_, err = b.Publish(topic, []*broker.Message{{Data: []byte("x"), Attributes: map[string]string{"no": "1"}}})
		b.must(err)
		b.publish("a b c")
		c := b.attach(2)
		for _, d := range b.take(c) {
			b.ack(d.AckID) // a and b; c is leased now
		}
		b.must(b.Seek(sub, start))
		c.Close()
		b.takeAll(b.attach(0), "c a b") // c had its turn before
		b.check()
	})
}
