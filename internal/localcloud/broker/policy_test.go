package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

func TestDeadLetter(t *testing.T) {
	policy := func(c *broker.SubscriptionConfig) {
		c.DeadLetter = &broker.DeadLetterPolicy{Topic: dead, MaxAttempts: 5}
	}
	run(t, policy, func(b bench) {
		published := time.Now()
		if _, err := b.Publish(topic, []*broker.Message{{
			Data: []byte("a"), Attributes: map[string]string{"item_id": "7"}, OrderingKey: "k",
		}}); err != nil {
			b.Fatal(err)
		}
		sleep(time.Millisecond)
		c := b.attach(1)
		for attempt := 1; attempt <= 5; attempt++ {
			d := b.takeOne(c, "a", attempt)
			if attempt%2 == 0 { // a lease that runs out counts as a nack does
				sleep(lease)
				continue
			}
			b.nack(d.AckID)
		}
		b.takeNone(c)
		if got, want := b.counts(), (broker.Counts{Published: 1, DeadLettered: 1, Consumers: 1}); got != want {
			b.Errorf("counts: got %+v, want %+v", got, want)
		}
		d := b.takeOne(b.attachTo(deadSub, 1), "a", 1)
		want := map[string]string{
			"item_id":                            "7",
			broker.AttrSourceDeliveryCount:       "5",
			broker.AttrSourceSubscription:        "workers",
			broker.AttrSourceSubscriptionProject: "p",
			broker.AttrSourcePublishTime:         published.UTC().Format("2006-01-02T15:04:05.000-07:00"),
		}
		if diff := cmp.Diff(want, d.Message.Attributes); diff != "" {
			b.Errorf("attributes of the dead letter (-want +got):\n%s", diff)
		}
		if d.Message.OrderingKey != "k" {
			b.Errorf("ordering key: got %q, want k", d.Message.OrderingKey)
		}
	})
}

// While the dead-letter topic is missing, the message stays.
func TestDeadLetterWithoutTopic(t *testing.T) {
	policy := func(c *broker.SubscriptionConfig) {
		c.DeadLetter = &broker.DeadLetterPolicy{Topic: dead, MaxAttempts: 5}
	}
	run(t, policy, func(b bench) {
		b.must(b.DeleteTopic(dead))
		b.publish("a")
		c := b.attach(1)
		for attempt := 1; attempt <= 8; attempt++ {
			b.nack(b.takeOne(c, "a", attempt).AckID)
		}
		b.must(b.CreateTopic(broker.TopicConfig{Name: dead}))
		b.nack(b.takeOne(c, "a", 9).AckID)
		b.takeNone(c)
		if got := b.counts().DeadLettered; got != 1 {
			b.Errorf("dead-lettered: got %d, want 1", got)
		}
	})
}

// A subscription whose dead letters go to its own topic must not deadlock or
// recurse; each round is a new message.
func TestDeadLetterToOwnTopic(t *testing.T) {
	policy := func(c *broker.SubscriptionConfig) {
		c.DeadLetter = &broker.DeadLetterPolicy{Topic: topic, MaxAttempts: 5}
	}
	run(t, policy, func(b bench) {
		b.publish("a")
		c := b.attach(1)
		for attempt := 1; attempt <= 5; attempt++ {
			b.nack(b.takeOne(c, "a", attempt).AckID)
		}
		b.takeOne(c, "a", 1)
	})
}

func TestRetryPolicyDelays(t *testing.T) {
	policy := func(c *broker.SubscriptionConfig) {
		c.Retry = &broker.RetryPolicy{Min: 10 * time.Second, Max: 30 * time.Second}
	}
	run(t, policy, func(b bench) {
		c := b.attach(1)
		b.publish("a")
		for i, want := range []time.Duration{10, 20, 30, 30} {
			want *= time.Second
			b.nack(b.takeOne(c, "a", i+1).AckID)
			if got := b.counts().Delayed; got != 1 {
				b.Errorf("delayed: got %d, want 1", got)
			}
			sleep(want - time.Nanosecond)
			b.takeNone(c)
			sleep(time.Nanosecond)
		}
		b.takeOne(c, "a", 5)
	})
}

func TestRetentionDrops(t *testing.T) {
	short := func(c *broker.SubscriptionConfig) { c.Retention = 10 * time.Minute }
	run(t, short, func(b bench) {
		c := b.attach(1)
		b.publish("leased")
		d := b.takeOne(c, "leased", 1)
		b.publish("ready")
		b.extend(d.AckID, 600*time.Second+time.Nanosecond)
		sleep(10*time.Minute - time.Nanosecond)
		if got := b.counts(); got.Leased != 1 || got.Ready != 1 {
			b.Errorf("just before the end: got %+v, want one leased and one ready", got)
		}
		b.publish("young")
		sleep(time.Nanosecond)
		b.takeOne(c, "young", 1) // the dropped lease made room
		if b.ack(d.AckID) {
			b.Error("a dropped message could be acked")
		}
		if got := b.counts().Dropped; got != 2 {
			b.Errorf("dropped: got %d, want 2", got)
		}
	})
}

func TestUpdateRetentionTakesEffect(t *testing.T) {
	run(t, nil, func(b bench) {
		b.publish("a b")
		sleep(time.Hour)
		_, err := b.UpdateSubscription(sub, func(c *broker.SubscriptionConfig) error {
			c.Retention = 10 * time.Minute
			return nil
		})
		b.must(err)
		if got := b.counts().Dropped; got != 2 {
			b.Errorf("dropped: got %d, want 2", got)
		}
	})
}

func TestSeekBack(t *testing.T) {
	keep := func(c *broker.SubscriptionConfig) { c.RetainAcked = true }
	run(t, keep, func(b bench) {
		c := b.attach(10)
		b.publish("a")
		sleep(time.Second)
		from := time.Now()
		b.publish("b c")
		for _, d := range b.take(c) {
			b.ack(d.AckID)
		}
		b.must(b.Seek(sub, from))
		if got := show(b.take(c)); got != "b(attempt 1) c(attempt 1) " {
			b.Errorf("after the seek: took %s, want b and c", got)
		}
	})
}

func TestSeekAheadPurges(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(1)
		b.publish("a b c")
		held := b.takeOne(c, "a", 1)
		b.must(b.Seek(sub, time.Now().Add(time.Hour)))
		if b.ack(held.AckID) {
			b.Error("a purged delivery could be acked")
		}
		b.publish("d") // before the target: acked on arrival
		b.takeNone(c)
		sleep(time.Hour)
		b.publish("e")
		b.takeOne(c, "e", 1)
		if got := b.counts().Acked; got != 4 {
			b.Errorf("acked: got %d, want 4", got)
		}
	})
}

func TestSeekWithoutRetainedAcksBringsNothingBack(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(2)
		b.publish("a b")
		b.ack(b.take(c)[0].AckID)
		b.must(b.Seek(sub, time.Now().Add(-time.Hour)))
		b.takeNone(c)
		sleep(lease)
		b.takeOne(c, "b", 2)
	})
}

func TestDeleteEndsConsumers(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(bench) error
		want error
	}{
		{"delete", func(b bench) error { return b.DeleteSubscription(sub) }, broker.ErrSubscriptionNotFound},
		{"detach", func(b bench) error { return b.Detach(sub) }, broker.ErrDetached},
		{"close", func(b bench) error { b.Close(); return nil }, broker.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, nil, func(b bench) {
				c := b.attach(1)
				b.publish("a b")
				<-c.Wake()
				d := b.takeOne(c, "a", 1)
				b.must(tt.do(b))
				<-c.Wake() // must not hang
				if _, err := c.Take(nil, 1, 1); !errors.Is(err, tt.want) {
					b.Errorf("Take: got %v, want %v", err, tt.want)
				}
				if stale, _, err := b.Ack(sub, []broker.AckID{d.AckID}); err == nil && len(stale) == 0 {
					b.Error("the ack of what is gone worked")
				}
				if _, err := b.Attach(sub, broker.ConsumerConfig{}); !errors.Is(err, tt.want) {
					b.Errorf("Attach: got %v, want %v", err, tt.want)
				}
				sleep(time.Hour) // no timer may fire into what is gone
			})
		})
	}
}

func TestDeletedTopicKeepsSubscription(t *testing.T) {
	run(t, nil, func(b bench) {
		b.publish("a")
		b.must(b.DeleteTopic(topic))
		c, err := b.Subscription(sub)
		if err != nil || c.Topic != broker.DeletedTopic {
			b.Errorf("topic: got %q, %v, want %q", c.Topic, err, broker.DeletedTopic)
		}
		b.must(b.CreateTopic(broker.TopicConfig{Name: topic}))
		b.publish("b") // a new topic of that name has no subscription
		if got := show(b.take(b.attach(0))); got != "a(attempt 1) " {
			b.Errorf("took %s, want a", got)
		}
	})
}

// kinds records the kinds of the events of one message.
type kinds map[string][]string

func (k kinds) Record(e broker.Event) {
	p := fmt.Sprint("delivery ", e.AckID) // when the broker has forgotten the message
	if e.Message != nil {
		p = string(e.Message.Data)
	}
	k[p] = append(k[p], e.Kind.String())
}

func TestRecorderSeesTheLifeOfAMessage(t *testing.T) {
	got := kinds{}
	b := setup(t, nil, got, func(c *broker.SubscriptionConfig) {
		c.DeadLetter = &broker.DeadLetterPolicy{Topic: dead, MaxAttempts: 2}
	})
	c := b.attach(1)
	b.publish("a b")
	d := b.takeOne(c, "a", 1)
	b.extend(d.AckID, time.Minute)
	b.nack(d.AckID)
	b.nack(b.takeOne(c, "a", 2).AckID)
	last := b.takeOne(c, "b", 1)
	b.ack(last.AckID)
	b.ack(last.AckID)
	b.nack(d.AckID)
	b.extend(d.AckID, time.Minute)
	want := kinds{
		"a": {"published", "delivered", "extended", "nacked", "delivered", "nacked", "dead-lettered", "published"},
		"b": {"published", "delivered", "acked"},

		fmt.Sprint("delivery ", last.AckID): {"acked late"},
		fmt.Sprint("delivery ", d.AckID):    {"nacked late"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
