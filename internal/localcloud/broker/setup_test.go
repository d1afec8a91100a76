package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic   = "projects/p/topics/items"
	sub     = "projects/p/subscriptions/workers"
	dead    = "projects/p/topics/items-dead"
	deadSub = "projects/p/subscriptions/items-dead"

	lease = 10 * time.Second
)

// bench is a broker with one topic and one subscription.
type bench struct {
	testing.TB
	*broker.Broker
}

// run calls test in a bubble with fake time.
func run(t *testing.T, change func(*broker.SubscriptionConfig), test func(bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, nil, change)
		test(b)
		b.check()
	})
}

func setup(tb testing.TB, clock broker.Clock, r broker.Recorder, change func(*broker.SubscriptionConfig)) bench {
	tb.Helper()
	b := bench{tb, broker.New(clock, r)}
	tb.Cleanup(b.Close)
	c := broker.SubscriptionConfig{Name: sub, Topic: topic, AckDeadline: lease, Retention: 7 * 24 * time.Hour}
	if change != nil {
		change(&c)
	}
	b.must(b.CreateTopic(broker.TopicConfig{Name: topic}))
	b.must(b.CreateTopic(broker.TopicConfig{Name: dead}))
	b.must(b.CreateSubscription(c))
	b.must(b.CreateSubscription(broker.SubscriptionConfig{Name: deadSub, Topic: dead, AckDeadline: lease}))
	return b
}

func (b bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// publish sends messages with the given payloads, separated by spaces.
func (b bench) publish(payloads string) {
	b.Helper()
	var msgs []*broker.Message
	for p := range strings.FieldsSeq(payloads) {
		msgs = append(msgs, &broker.Message{Data: []byte(p)})
	}
	_, err := b.Publish(topic, msgs)
	b.must(err)
}

func (b bench) publishN(n int) {
	b.Helper()
	msgs := make([]*broker.Message, n)
	for i := range msgs {
		msgs[i] = &broker.Message{Data: fmt.Append(nil, i)}
	}
	_, err := b.Publish(topic, msgs)
	b.must(err)
}

// attach adds a consumer with room for n messages; 0 is no bound.
func (b bench) attach(n int) *broker.Consumer {
	b.Helper()
	return b.attachTo(sub, n)
}

func (b bench) attachTo(sub string, n int) *broker.Consumer {
	b.Helper()
	c, err := b.Attach(sub, broker.ConsumerConfig{Name: fmt.Sprint("room for ", n), MaxMessages: n})
	b.must(err)
	b.Cleanup(c.Close)
	return c
}

// take returns what the consumer has got since.
func (b bench) take(c *broker.Consumer) []broker.Delivery {
	b.Helper()
	ds, err := c.Take(nil, 1<<30, 1<<30)
	b.must(err)
	return ds
}

// takeOne insists on exactly one delivery, with this payload and attempt.
func (b bench) takeOne(c *broker.Consumer, payload string, attempt int) broker.Delivery {
	b.Helper()
	ds := b.take(c)
	if len(ds) != 1 || string(ds[0].Message.Data) != payload || ds[0].Attempt != attempt {
		b.Fatalf("took %s, want %s in attempt %d", show(ds), payload, attempt)
	}
	return ds[0]
}

func (b bench) takeNone(c *broker.Consumer) {
	b.Helper()
	if ds := b.take(c); len(ds) > 0 {
		b.Fatalf("took %s, want nothing", show(ds))
	}
}

func show(ds []broker.Delivery) string {
	var s strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&s, "%s(attempt %d) ", d.Message.Data, d.Attempt)
	}
	if s.Len() == 0 {
		return "nothing"
	}
	return s.String()
}

// ack and its kin return whether the ack ID meant a delivery.
func (b bench) ack(id broker.AckID) bool {
	b.Helper()
	stale, early, err := b.Ack(sub, []broker.AckID{id})
	b.must(err)
	return len(stale)+len(early) == 0
}

func (b bench) nack(id broker.AckID) bool {
	b.Helper()
	stale, err := b.Nack(sub, []broker.AckID{id})
	b.must(err)
	return len(stale) == 0
}

func (b bench) extend(id broker.AckID, d time.Duration) bool {
	b.Helper()
	stale, err := b.Extend(sub, []broker.AckID{id}, d)
	b.must(err)
	return len(stale) == 0
}

func (b bench) counts() broker.Counts {
	b.Helper()
	c, err := b.Counts(sub)
	b.must(err)
	return c
}

// check verifies that no message is lost or counted twice.
func (b bench) check() {
	b.Helper()
	c, err := b.Counts(sub)
	if err != nil {
		return // the test deleted the subscription or closed the broker
	}
	if sum := c.Ready + c.Delayed + c.Leased + c.Acked + c.DeadLettered + c.Dropped; sum != c.Published {
		b.Errorf("%d messages published, %d accounted for: %+v", c.Published, sum, c)
	}
}

// sleep lets fake time pass, and the broker's timers with it.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // fake time: it passes at once
	synctest.Wait()
}
