package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// manualClock never fires a timer; the test calls tick itself.
type manualClock struct{ now time.Time }

type noTimer struct{}

func (c *manualClock) Now() time.Time                      { return c.now }
func (*manualClock) AfterFunc(time.Duration, func()) Timer { return noTimer{} }
func (noTimer) Stop() bool                                 { return true }
func (noTimer) Reset(time.Duration) bool                   { return true }
func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chaos does anything that may happen to a subscription with ordering, with every
// policy, and verifies after each step that its structures agree.
type chaos struct {
	*testing.T

	r         *rand.Rand
	clock     *manualClock
	b         *Broker
	s         *subscription
	consumers []*Consumer
	ids       []AckID
}

func newChaos(t *testing.T, r *rand.Rand) *chaos {
	c := &chaos{T: t, r: r, clock: &manualClock{now: time.Now()}}
	c.b = New(c.clock, nil)
	t.Cleanup(c.b.Close)
	fatal(t, c.b.CreateTopic(TopicConfig{Name: "t", Retention: time.Duration(r.IntN(2)) * time.Minute}))
	fatal(t, c.b.CreateTopic(TopicConfig{Name: "dead"}))
	config := SubscriptionConfig{
		Name: "s", Topic: "t", AckDeadline: 10 * time.Second, Retention: time.Minute,
		Ordered: true, ExactlyOnce: r.IntN(2) == 0, RetainAcked: r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 {
		config.Retry = &RetryPolicy{Min: 3 * time.Second, Max: 9 * time.Second}
	}
	if r.IntN(2) == 0 {
		config.DeadLetter = &DeadLetterPolicy{Topic: "dead", MaxAttempts: 3}
	}
	if r.IntN(2) == 0 {
		config.Match = func(attributes map[string]string) bool { return attributes["n"] != "3" }
	}
	fatal(t, c.b.CreateSubscription(config))
	c.s = c.b.subs["s"]
	return c
}

func (c *chaos) step() {
	switch c.r.IntN(14) {
	case 0, 1, 2:
		key := []string{"", "a", "b", "c"}[c.r.IntN(4)]
		var msgs []*Message
		for range 1 + c.r.IntN(4) {
			msgs = append(msgs, &Message{Data: make([]byte, c.r.IntN(20)), OrderingKey: key, Attributes: map[string]string{"n": fmt.Sprint(c.r.IntN(5))}})
		}
		_, err := c.b.Publish("t", msgs)
		fatal(c.T, err)
	case 3:
		if len(c.consumers) < 4 {
			consumer, err := c.b.Attach("s", ConsumerConfig{MaxMessages: c.r.IntN(5), MaxBytes: 50 * c.r.IntN(2)})
			fatal(c.T, err)
			c.consumers = append(c.consumers, consumer)
		}
	case 4:
		if len(c.consumers) > 0 {
			i := c.r.IntN(len(c.consumers))
			c.consumers[i].Close()
			c.consumers = slices.Delete(c.consumers, i, i+1)
		}
	case 5, 6:
		for _, consumer := range c.consumers {
			ds, err := consumer.Take(nil, 1+c.r.IntN(6), 1000)
			fatal(c.T, err)
			for _, d := range ds {
				c.ids = append(c.ids, d.AckID)
			}
		}
	case 7, 8, 9:
		_, _, err := c.b.Ack("s", c.some())
		fatal(c.T, err)
	case 10:
		_, err := c.b.Nack("s", c.some())
		fatal(c.T, err)
	case 11:
		_, err := c.b.Extend("s", c.some(), time.Duration(1+c.r.IntN(20))*time.Second)
		fatal(c.T, err)
	case 12:
		c.clock.now = c.clock.now.Add(time.Duration(c.r.IntN(8)) * time.Second)
		c.s.tick()
	case 13:
		if c.r.IntN(5) == 0 {
			fatal(c.T, c.b.Seek("s", c.clock.now.Add(time.Duration(c.r.IntN(60)-50)*time.Second)))
		}
	}
	c.verify()
}

// some returns a few of the recent ack IDs.
func (c *chaos) some() []AckID {
	var ids []AckID
	for range c.r.IntN(4) {
		if n := len(c.ids); n > 0 {
			ids = append(ids, c.ids[n-1-c.r.IntN(min(n, 15))])
		}
	}
	return ids
}

func (c *chaos) verify() {
	c.Helper()
	counts, err := c.b.Counts("s")
	fatal(c.T, err)
	if sum := counts.Ready + counts.Delayed + counts.Leased + counts.Acked + counts.DeadLettered + counts.Dropped; sum != counts.Published {
		c.Fatalf("messages were lost: %+v", counts)
	}
	waiting, keyed := 0, 0
	for key, l := range c.s.lanes {
		out := 0
		var last MessageID
		state := stateLeased // what is expected next
		for e := l.unsettled.head; e != nil; e = e.rank.link.next {
			if e.msg.ID <= last || e.msg.OrderingKey != key || e.rank.lane != l {
				c.Fatalf("lane %s: %d follows %d", key, e.msg.ID, last)
			}
			last = e.msg.ID
			if e == l.next {
				state = stateReady
			}
			c.verifyEntry(l, e, state)
			switch e.state {
			case stateLeased:
				out++
			case stateReady:
				keyed++
			case stateWaiting, stateParked:
				waiting++
			default:
			}
			if e == l.next {
				state = stateWaiting
			}
		}
		if l.unsettled.len == 0 || out != l.out || (out > 0) != (l.holder != nil) {
			c.Fatalf("lane %s: %d entries, %d out, counted %d, held: %t", key, l.unsettled.len, l.out, out, l.holder != nil)
		}
	}
	if waiting != c.s.waiting || keyed != c.s.keyed.len {
		c.Fatalf("%d waiting, counted %d; %d queued, counted %d", c.s.waiting, waiting, c.s.keyed.len, keyed)
	}
	for _, consumer := range c.consumers {
		if consumer.hasRoom() && c.s.fresh.len+c.s.redelivered.len+c.s.keyed.len+consumer.parked.len > 0 {
			c.Fatal("a consumer with room is left idle")
		}
	}
}

func (c *chaos) verifyEntry(l *lane, e *entry, state state) {
	c.Helper()
	ok := false
	switch state {
	case stateLeased:
		ok = e.state == stateLeased && e.holder == l.holder || e.state == stateEarly && l.unsettled.head != e
	case stateReady:
		ok = e.state == stateReady || e.state == stateDelayed || e.state == stateParked && l.holder != nil
	default:
		ok = e.state == state
	}
	if !ok {
		c.Fatalf("lane %s: message %d is in state %d", l.key, e.msg.ID, e.state)
	}
}

func TestLanesAgree(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newChaos(t, rand.New(rand.NewPCG(seed, 3)))
			for range 500 {
				c.step()
			}
		})
	}
}
