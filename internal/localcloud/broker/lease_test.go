package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

func TestAck(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(0)
		b.publish("a")
		d := b.takeOne(c, "a", 1)
		if !b.ack(d.AckID) {
			b.Error("the ack of a live delivery did nothing")
		}
		if b.ack(d.AckID) || b.nack(d.AckID) || b.extend(d.AckID, lease) {
			b.Error("the ack ID still worked after the ack")
		}
		sleep(time.Hour)
		b.takeNone(c)
		if got, want := b.counts(), (broker.Counts{Published: 1, Acked: 1, Consumers: 1}); got != want {
			b.Errorf("counts: got %+v, want %+v", got, want)
		}
	})
}

func TestLeaseExpiresExactly(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(1)
		b.publish("a")
		first := b.takeOne(c, "a", 1)
		sleep(lease - time.Nanosecond)
		b.takeNone(c)
		if got := b.counts().Leased; got != 1 {
			b.Errorf("leased before the deadline: got %d, want 1", got)
		}
		sleep(time.Nanosecond)
		second := b.takeOne(c, "a", 2)
		if second.AckID == first.AckID {
			b.Error("two deliveries share an ack ID")
		}
	})
}

func TestExtend(t *testing.T) {
	for _, tt := range []struct {
		name string
		by   time.Duration
	}{
		{"longer", 30 * time.Second},
		{"shorter", 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, nil, func(b bench) {
				c := b.attach(1)
				b.publish("a")
				d := b.takeOne(c, "a", 1)
				sleep(5 * time.Second)
				if !b.extend(d.AckID, tt.by) {
					b.Fatal("the lease could not be extended")
				}
				sleep(tt.by - time.Nanosecond)
				b.takeNone(c)
				sleep(time.Nanosecond)
				b.takeOne(c, "a", 2)
			})
		})
	}
}

// A late worker must not disturb the one that holds the message now.
func TestStaleAckIDsDoNothingToTheNewerDelivery(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(1)
		b.publish("a")
		old := b.takeOne(c, "a", 1)
		sleep(lease)
		now := b.takeOne(c, "a", 2)
		if b.ack(old.AckID) || b.nack(old.AckID) || b.extend(old.AckID, time.Hour) {
			b.Error("an old ack ID still worked")
		}
		b.takeNone(c)
		sleep(lease - time.Nanosecond)
		if !b.ack(now.AckID) {
			b.Error("the newer delivery was disturbed")
		}
	})
}

func TestAckIDOfAnotherSubscriptionDoesNothing(t *testing.T) {
	run(t, nil, func(b bench) {
		const other = "projects/p/subscriptions/other"
		b.must(b.CreateSubscription(broker.SubscriptionConfig{Name: other, Topic: topic, AckDeadline: lease}))
		b.publish("a")
		mine := b.takeOne(b.attach(1), "a", 1)
		b.takeOne(b.attachTo(other, 1), "a", 1)
		if stale, _, err := b.Ack(other, []broker.AckID{mine.AckID}); err != nil || len(stale) != 1 {
			b.Errorf("stale: got %v, %v, want one", stale, err)
		}
		if got := b.counts().Leased; got != 1 {
			b.Errorf("leased: got %d, want 1", got)
		}
	})
}

func TestNackRedeliversAtOnceToAnother(t *testing.T) {
	run(t, nil, func(b bench) {
		first := b.attach(1)
		b.publish("a")
		d := b.takeOne(first, "a", 1)
		second := b.attach(1)
		if !b.nack(d.AckID) {
			b.Fatal("the nack did nothing")
		}
		b.takeNone(first)
		b.takeOne(second, "a", 2)
	})
}

func TestExpiryRedeliversToAnother(t *testing.T) {
	run(t, nil, func(b bench) {
		first := b.attach(4)
		b.publish("a")
		b.takeOne(first, "a", 1)
		second, third := b.attach(4), b.attach(4)
		b.publish("b c") // now all three hold one
		b.takeOne(second, "b", 1)
		b.takeOne(third, "c", 1)
		sleep(lease)
		// All came back at the same time; nobody may get what he had.
		for payload, c := range map[string]*broker.Consumer{"a": first, "b": second, "c": third} {
			ds := b.take(c)
			for _, d := range ds {
				if string(d.Message.Data) == payload {
					b.Errorf("%s went back to its last holder", payload)
				}
			}
		}
	})
}

func TestNackWithOneConsumerComesBack(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(1)
		b.publish("a")
		b.nack(b.takeOne(c, "a", 1).AckID)
		b.takeOne(c, "a", 2)
	})
}

// A redelivery neither waits behind the backlog nor holds it up.
func TestRedeliveriesAndBacklogTakeTurns(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(1)
		b.publish("bad 1 2 3")
		var got []string
		for range 7 {
			ds := b.take(c)
			if len(ds) != 1 {
				b.Fatalf("took %s, want one", show(ds))
			}
			payload := string(ds[0].Message.Data)
			got = append(got, payload)
			if payload == "bad" {
				b.nack(ds[0].AckID)
			} else {
				b.ack(ds[0].AckID)
			}
		}
		want := []string{"bad", "bad", "1", "bad", "2", "bad", "3"}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestCloseKeepsLeasesAndReturnsTheRest(t *testing.T) {
	run(t, nil, func(b bench) {
		gone := b.attach(4)
		b.publish("a")
		held := b.takeOne(gone, "a", 1)
		b.publish("b c") // assigned to gone, but never taken
		next := b.attach(4)
		b.takeNone(next)
		gone.Close()
		if got := show(b.take(next)); got != "b(attempt 1) c(attempt 1) " {
			b.Errorf("after Close the other took %s, want b and c", got)
		}
		if _, err := gone.Take(nil, 1, 1); err == nil {
			b.Error("a closed consumer still takes")
		}
		sleep(5 * time.Second)
		if !b.extend(held.AckID, lease) {
			b.Error("the lease of a closed consumer ended with it")
		}
		sleep(lease - time.Nanosecond)
		for _, d := range b.take(next) {
			if string(d.Message.Data) == "a" {
				b.Error("a was redelivered before its lease ran out")
			}
		}
	})
}

// What was assigned to a consumer that does not take it reaches another, and
// does not count as an attempt.
func TestHungConsumerDoesNotKeepMessages(t *testing.T) {
	run(t, nil, func(b bench) {
		hung := b.attach(4)
		b.publish("a")
		other := b.attach(4)
		sleep(lease)
		b.takeOne(other, "a", 1)
		b.takeNone(hung)
	})
}

func TestManyLeasesRunOutTogether(t *testing.T) {
	run(t, nil, func(b bench) {
		const n = 5000
		b.publishN(n)
		c := b.attach(0)
		for got := 0; got < n; {
			got += len(b.take(c))
		}
		c.Close()
		sleep(lease)
		if got := b.counts(); got.Ready != n || got.Leased != 0 {
			b.Errorf("after expiry: got %+v, want %d ready", got, n)
		}
	})
}

func TestSetAckDeadline(t *testing.T) {
	run(t, nil, func(b bench) {
		c, err := b.Attach(sub, broker.ConsumerConfig{MaxMessages: 2, AckDeadline: 20 * time.Second})
		b.must(err)
		b.publish("a")
		b.takeOne(c, "a", 1)
		c.SetAckDeadline(60 * time.Second)
		b.publish("b")
		b.takeOne(c, "b", 1)
		sleep(20 * time.Second)
		b.takeOne(c, "a", 2) // leased for 60 s from now
		sleep(40*time.Second - time.Nanosecond)
		b.takeNone(c)
		sleep(time.Nanosecond)
		b.takeOne(c, "b", 2)
		c.Close()
	})
}

// lateClock is a clock whose timers never fire.
type lateClock struct{ broker.SystemClock }

type noTimer struct{}

func (noTimer) Stop() bool               { return true }
func (noTimer) Reset(time.Duration) bool { return true }

func (lateClock) AfterFunc(time.Duration, func()) broker.Timer { return noTimer{} }

// A lease ends at its deadline, not when a timer gets round to it.
func TestLeaseEndsEvenIfTheTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, lateClock{}, nil, nil)
		b.publish("a")
		d := b.takeOne(b.attach(1), "a", 1)
		sleep(lease)
		if b.ack(d.AckID) || b.nack(d.AckID) || b.extend(d.AckID, lease) {
			b.Error("the ack ID still worked at the deadline")
		}
	})
}
