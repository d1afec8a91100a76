package broker_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker/brokertest"
)

// model is what the broker should do, written down the slow way: it knows every
// delivery there ever was and what became of each message.
type model struct {
	bench
	clock       *brokertest.Clock
	maxAttempts int

	published  int
	fate       map[string]string // payload -> acked or dead
	failures   map[string]int
	live       map[string]broker.AckID // payload -> the delivery that holds it
	deliveries map[broker.AckID]*delivery
	order      []broker.AckID // of all deliveries
	consumers  []*modelConsumer
}

type delivery struct {
	payload string
	to      *modelConsumer
	ends    time.Time
}

type modelConsumer struct {
	c    *broker.Consumer
	room int
}

const maxConsumers = 4

func newModel(t *testing.T) *model {
	clock := brokertest.NewClock()
	m := &model{
		clock: clock, maxAttempts: 5,
		fate: map[string]string{}, failures: map[string]int{}, live: map[string]broker.AckID{},
		deliveries: map[broker.AckID]*delivery{},
	}
	m.bench = setup(t, clock, nil, func(c *broker.SubscriptionConfig) {
		c.DeadLetter = &broker.DeadLetterPolicy{Topic: dead, MaxAttempts: m.maxAttempts}
	})
	return m
}

// step carries out one operation and then verifies everything.
func (m *model) step(op, arg byte) {
	switch op % 8 {
	case 0:
		for range arg%16 + 1 {
			m.publish(fmt.Sprintf("m%d", m.published))
			m.published++
		}
	case 1:
		if len(m.consumers) < maxConsumers {
			room := int(arg%8) + 1
			m.consumers = append(m.consumers, &modelConsumer{m.attach(room), room})
		}
	case 2:
		if len(m.consumers) > 0 {
			i := int(arg) % len(m.consumers)
			m.consumers[i].c.Close()
			m.consumers = slices.Delete(m.consumers, i, i+1)
		}
	case 3, 4:
		m.resolve(arg, m.ack, func(p string) { m.fate[p] = "acked" })
	case 5:
		m.resolve(arg, m.nack, m.failed)
	case 6:
		m.stretch(arg)
	case 7:
		for range arg%12 + 1 {
			m.second()
		}
	}
	m.collect()
	m.verify()
}

// pick returns one of the recent deliveries, alive or not.
func (m *model) pick(arg byte) (broker.AckID, *delivery) {
	if len(m.order) == 0 {
		return 0, nil
	}
	id := m.order[len(m.order)-1-int(arg)%min(len(m.order), 40)]
	return id, m.deliveries[id]
}

func (m *model) alive(id broker.AckID, d *delivery) bool {
	return m.live[d.payload] == id && m.clock.Now().Before(d.ends)
}

// resolve acks or nacks a delivery: it must have an effect if and only if the
// delivery is alive.
func (m *model) resolve(arg byte, do func(broker.AckID) bool, effect func(payload string)) {
	id, d := m.pick(arg)
	if d == nil {
		return
	}
	want := m.alive(id, d)
	if got := do(id); got != want {
		m.Fatalf("delivery %d of %s: had an effect: %t, want %t", id, d.payload, got, want)
	}
	if want {
		delete(m.live, d.payload)
		effect(d.payload)
	}
}

func (m *model) failed(payload string) {
	m.failures[payload]++
	if m.failures[payload] >= m.maxAttempts {
		m.fate[payload] = "dead"
	}
}

func (m *model) stretch(arg byte) {
	id, d := m.pick(arg)
	if d == nil {
		return
	}
	by := time.Duration(arg%20+1) * time.Second
	want := m.alive(id, d)
	if got := m.extend(id, by); got != want {
		m.Fatalf("extension of delivery %d of %s: had an effect: %t, want %t", id, d.payload, got, want)
	}
	if want {
		d.ends = m.clock.Now().Add(by)
	}
}

// second lets one second pass. All leases are whole seconds, so that every
// expiry falls on a step.
func (m *model) second() {
	m.clock.Advance(time.Second)
	for payload, id := range maps.Clone(m.live) {
		if !m.alive(id, m.deliveries[id]) {
			delete(m.live, payload)
			m.failed(payload)
		}
	}
	m.collect()
}

// collect takes what the consumers have got and checks that it could be theirs.
func (m *model) collect() {
	for _, mc := range m.consumers {
		for _, d := range m.take(mc.c) {
			payload := string(d.Message.Data)
			if fate := m.fate[payload]; fate != "" {
				m.Fatalf("%s was delivered after it was %s", payload, fate)
			}
			if other, held := m.live[payload]; held {
				m.Fatalf("%s was delivered while delivery %d holds it", payload, other)
			}
			if m.deliveries[d.AckID] != nil {
				m.Fatalf("ack ID %d was used twice", d.AckID)
			}
			if want := m.failures[payload] + 1; d.Attempt != want {
				m.Fatalf("%s: attempt %d, want %d", payload, d.Attempt, want)
			}
			m.live[payload] = d.AckID
			m.deliveries[d.AckID] = &delivery{payload, mc, m.clock.Now().Add(lease)}
			m.order = append(m.order, d.AckID)
		}
	}
}

func (m *model) verify() {
	m.check()
	got, want := m.counts(), broker.Counts{Published: m.published, Leased: len(m.live), Consumers: len(m.consumers)}
	for _, fate := range m.fate {
		if fate == "acked" {
			want.Acked++
		} else {
			want.DeadLettered++
		}
	}
	want.Ready = want.Published - want.Leased - want.Acked - want.DeadLettered
	if got != want {
		m.Fatalf("counts: got %+v, want %+v", got, want)
	}
	for i, mc := range m.consumers {
		held := 0
		for _, id := range m.live {
			if m.deliveries[id].to == mc {
				held++
			}
		}
		if held > mc.room {
			m.Fatalf("consumer %d holds %d, more than its %d slots", i, held, mc.room)
		}
		if held < mc.room && got.Ready > 0 {
			m.Fatalf("consumer %d holds %d of %d while %d are ready", i, held, mc.room, got.Ready)
		}
	}
}

// finish acks everything and verifies that every message met one fate.
func (m *model) finish() {
	if len(m.consumers) == 0 {
		m.step(1, 7)
	}
	for len(m.fate) < m.published {
		m.second()
		for payload, id := range maps.Clone(m.live) {
			if !m.ack(id) {
				m.Fatalf("the ack of %s did nothing", payload)
			}
			delete(m.live, payload)
			m.fate[payload] = "acked"
		}
		m.collect()
		m.verify()
	}
	dead := 0
	for _, fate := range m.fate {
		if fate == "dead" {
			dead++
		}
	}
	if c, err := m.Counts(deadSub); err != nil || c.Published != dead {
		m.Fatalf("dead-letter subscription: got %d, %v, want %d", c.Published, err, dead)
	}
}

func play(t *testing.T, ops []byte) {
	m := newModel(t)
	for i := 0; i+1 < len(ops); i += 2 {
		m.step(ops[i], ops[i+1])
	}
	m.finish()
}

func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			ops := make([]byte, 600)
			for i := range ops {
				ops[i] = byte(r.Uint32())
			}
			play(t, ops)
		})
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 5, 1, 3, 3, 0, 5, 1, 7, 11, 3, 2})
	f.Add([]byte{1, 7, 0, 15, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 2, 0, 7, 11, 1, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 2000 {
			t.Skip("longer than useful")
		}
		play(t, ops)
	})
}
