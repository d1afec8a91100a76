package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker/brokertest"
)

func ordered(c *broker.SubscriptionConfig) { c.Ordered = true }

// publishKeyed sends messages such as "a1 b1 a2", whose first letter is the
// ordering key; "-" is none.
func (b bench) publishKeyed(payloads string) {
	b.Helper()
	for p := range strings.FieldsSeq(payloads) {
		_, err := b.Publish(topic, []*broker.Message{{Data: []byte(p), OrderingKey: strings.Trim(p[:1], "-")}})
		b.must(err)
	}
}

// takeAll returns the deliveries by payload, and insists on their order.
func (b bench) takeAll(c *broker.Consumer, want string) map[string]broker.AckID {
	b.Helper()
	ids := map[string]broker.AckID{}
	got := []string{}
	for _, d := range b.take(c) {
		got = append(got, string(d.Message.Data))
		ids[string(d.Message.Data)] = d.AckID
	}
	if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
		b.Fatalf("took (-want +got):\n%s", diff)
	}
	return ids
}

func TestOrderWithinAKey(t *testing.T) {
	run(t, ordered, func(b bench) {
		b.publishKeyed("a1 a2 a3 b1 b2")
		got := map[string][]string{}
		for _, d := range b.take(b.attach(0)) {
			got[d.Message.OrderingKey] = append(got[d.Message.OrderingKey], string(d.Message.Data))
		}
		want := map[string][]string{"a": {"a1", "a2", "a3"}, "b": {"b1", "b2"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}

func TestKeyStaysWithItsConsumer(t *testing.T) {
	run(t, ordered, func(b bench) {
		first, second := b.attach(1), b.attach(5)
		b.publishKeyed("a1 a2 a3")
		one := b.takeAll(first, "a1")
		b.takeAll(second, "") // although it has room
		b.publishKeyed("b1 -")
		b.takeAll(second, "b1 -")

		b.ack(one["a1"])
		// Nothing of a is out any more: the one that holds less gets it.
		b.takeAll(first, "a2")
	})
}

func TestKeyWaitsForAPull(t *testing.T) {
	run(t, ordered, func(b bench) {
		b.publishKeyed("a1 a2 a3")
		pull := b.attach(2)
		ids := b.takeAll(pull, "a1 a2")
		pull.Close()
		other := b.attach(10)
		b.takeAll(other, "")
		b.ack(ids["a1"])
		b.takeAll(other, "")
		b.ack(ids["a2"])
		b.takeAll(other, "a3")
	})
}

func TestComingBackInOrder(t *testing.T) {
	tests := []struct {
		name   string
		change func(*broker.SubscriptionConfig)
		do     func(b bench, ids map[string]broker.AckID)
		want   string
		acked  int
	}{
		{"nack of the first", nil, func(b bench, ids map[string]broker.AckID) { b.nack(ids["a1"]) }, "a1 a2 a3 a4", 0},
		{"nack in the middle", nil, func(b bench, ids map[string]broker.AckID) {
			b.nack(ids["a2"])
			b.ack(ids["a1"]) // else the key would stay with the consumer that has it
		}, "a2 a3 a4", 1},
		{"an early ack is taken back", nil, func(b bench, ids map[string]broker.AckID) {
			b.ack(ids["a3"])
			b.nack(ids["a2"])
			b.ack(ids["a1"])
		}, "a2 a3 a4", 1},
		{"a final ack is not", nil, func(b bench, ids map[string]broker.AckID) {
			b.ack(ids["a2"])
			b.ack(ids["a1"])
			b.nack(ids["a3"])
		}, "a3 a4", 2},
		{"all are nacked in one request", nil, func(b bench, ids map[string]broker.AckID) {
			stale, err := b.Nack(sub, []broker.AckID{ids["a1"], ids["a3"], ids["a2"]})
			if err != nil || len(stale) > 0 {
				b.Fatalf("stale nacks: %v, %v", stale, err)
			}
		}, "a1 a2 a3 a4", 0},
		{"leases that run out", nil, func(_ bench, _ map[string]broker.AckID) { sleep(lease) }, "a1 a2 a3 a4", 0},
		{"the back-off holds up the key", func(c *broker.SubscriptionConfig) {
			c.Retry = &broker.RetryPolicy{Min: time.Minute, Max: time.Hour}
		}, func(b bench, ids map[string]broker.AckID) {
			b.nack(ids["a2"])
			b.ack(ids["a1"])
			sleep(59 * time.Second)
		}, "", 1},
		{"a dead letter lets the others pass", func(c *broker.SubscriptionConfig) {
			c.DeadLetter = &broker.DeadLetterPolicy{Topic: dead, MaxAttempts: 1}
		}, func(b bench, ids map[string]broker.AckID) {
			b.ack(ids["a2"])
			b.nack(ids["a1"])
			b.ack(ids["a3"])
		}, "a4", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run(t, func(c *broker.SubscriptionConfig) {
				ordered(c)
				if test.change != nil {
					test.change(c)
				}
			}, func(b bench) {
				b.publishKeyed("a1 a2 a3 a4")
				c := b.attach(3)
				ids := b.takeAll(c, "a1 a2 a3")
				test.do(b, ids)
				c.Close()
				b.takeAll(b.attach(0), test.want)
				if got := b.counts().Acked; got != test.acked {
					t.Errorf("got %d acked, want %d", got, test.acked)
				}
				for payload, id := range ids {
					if b.ack(id) && strings.Contains(test.want, payload) {
						t.Errorf("the old ack ID of %s did something", payload)
					}
				}
			})
		})
	}
}

func TestExactlyOnceRefusesEarlyAcks(t *testing.T) {
	run(t, func(c *broker.SubscriptionConfig) { c.Ordered, c.ExactlyOnce = true, true }, func(b bench) {
		b.publishKeyed("a1 a2 a3")
		ids := b.takeAll(b.attach(0), "a1 a2 a3")
		stale, early, err := b.Ack(sub, []broker.AckID{ids["a3"], ids["a2"]})
		if err != nil || len(stale) > 0 || !slices.Equal(early, []broker.AckID{ids["a2"], ids["a3"]}) {
			t.Fatalf("got stale %v, early %v, %v", stale, early, err)
		}
		// One request may ack all of them, in any order.
		stale, early, err = b.Ack(sub, []broker.AckID{ids["a3"], ids["a1"], ids["a2"]})
		if err != nil || len(stale)+len(early) > 0 {
			t.Fatalf("got stale %v, early %v, %v", stale, early, err)
		}
		if got := b.counts().Acked; got != 3 {
			t.Errorf("got %d acked, want 3", got)
		}
	})
}

func TestSeekKeepsTheOrder(t *testing.T) {
	run(t, func(c *broker.SubscriptionConfig) { c.Ordered, c.RetainAcked = true, true }, func(b bench) {
		start := time.Now()
		b.publishKeyed("a1 a2 a3 a4 a5")
		c := b.attach(4)
		ids := b.takeAll(c, "a1 a2 a3 a4")
		c.Close()
		b.ack(ids["a1"])
		b.ack(ids["a3"])
		b.must(b.Seek(sub, start))
		b.takeAll(b.attach(0), "a1 a2 a3 a4 a5")
		sleep(time.Second)
		b.must(b.Seek(sub, time.Now()))
		if c := b.counts(); c.Acked != 5 {
			t.Errorf("after a seek to now: %+v", c)
		}
	})
}

// orderModel checks random histories against what ordering promises.
type orderModel struct {
	bench
	r       *rand.Rand
	clock   *brokertest.Clock
	sent    map[string]int // key -> messages published, numbered from 1
	settled map[string]int // key -> of these, the first ones that are acked for good
	out     map[string][]*keyed
	room    []*broker.Consumer
}

type keyed struct {
	n       int
	id      broker.AckID
	to      *broker.Consumer
	acked   bool
	expires time.Time
}

func (m *orderModel) step() {
	key := string(rune('a' + m.r.IntN(3)))
	switch m.r.IntN(9) {
	case 0, 1:
		m.sent[key]++
		m.publishKeyed(fmt.Sprint(key, m.sent[key]))
	case 2:
		m.room = append(m.room, m.attach(1+m.r.IntN(4)))
	case 3:
		if i := m.r.IntN(len(m.room) + 1); i < len(m.room) {
			m.room[i].Close()
			m.room = slices.Delete(m.room, i, i+1)
		}
	case 4, 5, 6:
		if d := m.pick(key); d != nil && m.ack(d.id) != !d.acked {
			m.Fatalf("ack of %s%d: wrong effect", key, d.n)
		} else if d != nil {
			d.acked = true
		}
		m.advance(key)
	case 7:
		if d := m.pick(key); d != nil && !d.acked {
			if !m.nack(d.id) {
				m.Fatalf("nack of %s%d did nothing", key, d.n)
			}
			m.back(key, d.n)
		}
	case 8:
		m.clock.Advance(time.Second)
		for key := range m.sent {
			if i := slices.IndexFunc(m.out[key], func(d *keyed) bool { return !d.acked && !m.clock.Now().Before(d.expires) }); i >= 0 {
				m.back(key, m.out[key][i].n)
			}
		}
	}
	m.collect()
	m.check()
}

func (m *orderModel) pick(key string) *keyed {
	if len(m.out[key]) == 0 {
		return nil
	}
	return m.out[key][m.r.IntN(len(m.out[key]))]
}

func (m *orderModel) advance(key string) {
	for len(m.out[key]) > 0 && m.out[key][0].acked {
		m.settled[key] = m.out[key][0].n
		m.out[key] = m.out[key][1:]
	}
}

// back forgets the deliveries of a key from message n on.
func (m *orderModel) back(key string, n int) {
	m.out[key] = slices.DeleteFunc(m.out[key], func(d *keyed) bool { return d.n >= n })
}

func (m *orderModel) collect() {
	for _, c := range m.room {
		for _, d := range m.take(c) {
			key, n := d.Message.OrderingKey, 0
			if _, err := fmt.Sscan(string(d.Message.Data[1:]), &n); err != nil {
				m.Fatal(err)
			}
			out := m.out[key]
			if want := m.settled[key] + len(out) + 1; n != want {
				m.Fatalf("%s%d was delivered, want %s%d", key, n, key, want)
			}
			for _, other := range out {
				if !other.acked && other.to != c {
					m.Fatalf("%s%d and %s%d are out with two consumers", key, other.n, key, n)
				}
			}
			m.out[key] = append(out, &keyed{n: n, id: d.AckID, to: c, expires: m.clock.Now().Add(lease)})
		}
	}
}

func TestOrderModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			clock := brokertest.NewClock()
			m := &orderModel{
				bench: setup(t, clock, nil, ordered), clock: clock, r: rand.New(rand.NewPCG(seed, 2)),
				sent: map[string]int{}, settled: map[string]int{}, out: map[string][]*keyed{},
			}
			for range 400 {
				m.step()
			}
			m.room = append(m.room, m.attach(0))
			for range 1000 {
				m.clock.Advance(lease)
				for key := range m.sent {
					if len(m.out[key]) > 0 && !m.clock.Now().Before(m.out[key][0].expires) {
						m.back(key, m.out[key][0].n)
					}
				}
				m.collect()
				for key := range m.sent {
					for _, d := range m.out[key] {
						d.acked = d.acked || m.ack(d.id)
					}
					m.advance(key)
				}
				if diff := cmp.Diff(m.sent, m.settled); diff == "" {
					return
				}
			}
			t.Fatalf("sent %v, settled %v, counts %+v", m.sent, m.settled, m.counts())
		})
	}
}
