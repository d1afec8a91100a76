package broker_test

import (
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// Messages that arrive one by one, or all at once, spread evenly.
func TestSmallBacklogSpreads(t *testing.T) {
	run(t, nil, func(b bench) {
		cs := []*broker.Consumer{b.attach(0), b.attach(1000), b.attach(8)}
		b.publishN(9)
		for range 9 {
			b.publish("x")
		}
		for i, c := range cs {
			if got := len(b.take(c)); got != 6 {
				b.Errorf("consumer %d: got %d messages, want 6", i, got)
			}
		}
	})
}

// Two consumers with 8 slots each work off 40 messages; neither is ever idle
// while there is a backlog.
func TestFortyMessagesKeepBothBusy(t *testing.T) {
	run(t, nil, func(b bench) {
		cs := []*broker.Consumer{b.attach(8), b.attach(8)}
		b.publishN(40)
		held := [2][]broker.Delivery{}
		for done := 0; done < 40; {
			for i, c := range cs {
				held[i] = append(held[i], b.take(c)...)
				if len(held[i]) > 8 {
					b.Fatalf("consumer %d holds %d, more than its 8 slots", i, len(held[i]))
				}
				if len(held[i]) == 0 && b.counts().Ready > 0 {
					b.Fatalf("consumer %d is idle with a backlog of %d", i, b.counts().Ready)
				}
			}
			for i := range held {
				if len(held[i]) > 0 {
					b.ack(held[i][0].AckID)
					held[i] = held[i][1:]
					done++
				}
			}
		}
	})
}

func TestMaxBytes(t *testing.T) {
	run(t, nil, func(b bench) {
		c, err := b.Attach(sub, broker.ConsumerConfig{MaxBytes: 100})
		b.must(err)
		defer c.Close()
		b.publish(strings.Repeat("60bytes---", 6) + " " + strings.Repeat("y", 60) + " z")
		ds := b.take(c)
		if len(ds) != 2 { // 60 < 100, so a second one may go over
			b.Fatalf("got %d messages, want 2", len(ds))
		}
		b.ack(ds[0].AckID)
		b.takeOne(c, "z", 1)
	})
}

// A consumer without bounds must not lease a backlog that it cannot send.
func TestUnlimitedConsumerIsBoundedByWhatItTakes(t *testing.T) {
	run(t, nil, func(b bench) {
		b.publishN(5000)
		c := b.attach(0)
		if got := b.counts().Leased; got > 1000 {
			b.Errorf("%d messages leased before anything was taken, want at most 1000", got)
		}
		got := 0
		for got < 5000 {
			<-c.Wake()
			got += len(b.take(c))
		}
	})
}

func TestTakeInPieces(t *testing.T) {
	run(t, nil, func(b bench) {
		c := b.attach(0)
		b.publish("aaaa bbbb cccc")
		<-c.Wake()
		ds, err := c.Take(nil, 10, 5) // the second goes over 5 bytes
		b.must(err)
		if len(ds) != 2 {
			b.Fatalf("took %s, want two", show(ds))
		}
		<-c.Wake() // the rest is announced
		if ds, err = c.Take(ds, 3, 100); err != nil || len(ds) != 3 {
			b.Fatalf("took %s, %v, want three", show(ds), err)
		}
	})
}

// A redelivery goes to the least loaded of the others, not just to any other.
func TestRedeliveryGoesToTheLeastLoadedOther(t *testing.T) {
	for _, busyFirst := range []bool{true, false} {
		run(t, nil, func(b bench) {
			holder := b.attach(0)
			b.publish("a")
			d := b.takeOne(holder, "a", 1)
			x, y := b.attach(0), b.attach(0)
			if busyFirst {
				x, y = y, x
			}
			b.publish("1 2 3 4 5") // each of the three holds two now
			b.take(holder)
			b.take(y)
			b.ack(b.take(x)[0].AckID)
			b.nack(d.AckID)
			b.takeOne(x, "a", 2)
		})
	}
}
