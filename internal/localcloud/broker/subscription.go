package broker

import "time"

// subscription holds the entries of one subscription. All of it is guarded by
// Broker.mu.
type subscription struct {
	b      *Broker
	config SubscriptionConfig
	ended  bool // deleted, or the broker is closed
	dirty  bool // listed in Broker.dirty

	fresh       list // ready, in publish order
	redelivered list // ready again, in the order in which they came back
	log         list // every entry that the subscription still keeps, in publish order
	preferFresh bool // whose turn it is when both queues have entries

	leased map[AckID]*entry
	timed  heap[*entry] // leased and delayed entries by the end of lease or back-off

	consumers map[*Consumer]struct{}
	roomy     heap[*Consumer] // consumers with room, the best first
	turn      uint64

	// seekTo is the target of a seek into the future: what is published before
	// it counts as acked.
	seekTo time.Time

	timer   Timer
	timerAt time.Duration // when timer fires; 0 if it is not set

	count Counts
}

func newSubscription(b *Broker, c SubscriptionConfig) *subscription {
	return &subscription{
		b:           b,
		config:      c,
		fresh:       list{at: queueLinks},
		redelivered: list{at: queueLinks},
		log:         list{at: logLinks},
		leased:      make(map[AckID]*entry),
		consumers:   make(map[*Consumer]struct{}),
		timed: heap[*entry]{
			less: func(x, y *entry) bool {
				if x.at != y.at {
					return x.at < y.at
				}
				return x.msg.ID < y.msg.ID // a fixed order makes tests exact
			},
			place: func(e *entry, i int) { e.pos = int32(i) }, // 2^31 entries do not fit in memory
		},
		roomy: heap[*Consumer]{
			less:  func(x, y *Consumer) bool { return x.before(y) },
			place: func(c *Consumer, i int) { c.pos = i },
		},
	}
}

// add takes a message that was just published.
func (s *subscription) add(m *Message) {
	e := &entry{msg: m, pos: -1}
	s.count.Published++
	s.log.pushBack(e)
	s.record(Published, e)
	if m.PublishTime.Before(s.seekTo) {
		s.settle(e)
		return
	}
	s.makeReady(e)
}

// makeReady puts an entry that is in no queue and no heap into its queue.
func (s *subscription) makeReady(e *entry) {
	e.state = stateReady
	if e.redelivery {
		s.redelivered.pushBack(e)
	} else {
		s.fresh.pushBack(e)
	}
	s.b.touch(s)
}

// take removes the next ready entry from its queue. The two queues take turns:
// a redelivery does not wait behind a long backlog, and a message that is nacked
// again and again does not hold up the fresh ones.
func (s *subscription) take() *entry {
	q := &s.redelivered
	if q.len == 0 || (s.preferFresh && s.fresh.len > 0) {
		q = &s.fresh
	}
	s.preferFresh = q == &s.redelivered
	e := q.head
	if e != nil {
		q.remove(e)
	}
	return e
}

// dispatch hands ready entries to the consumers that have room for them.
func (s *subscription) dispatch(now time.Duration) {
	s.retire(now)
	for len(s.roomy.items) > 0 {
		e := s.take()
		if e == nil {
			return
		}
		s.assign(e, s.choose(e), now)
	}
}

// choose returns the best consumer that has room; for a redelivery the best
// other than its last holder, if there is one. There must be one with room.
func (s *subscription) choose(e *entry) *Consumer {
	items := s.roomy.items
	if e.holder == nil || items[0] != e.holder || len(items) == 1 {
		return items[0]
	}
	// The second best of a heap is one of the two below the top.
	if len(items) > 2 && items[2].before(items[1]) {
		return items[2]
	}
	return items[1]
}

// assign leases an entry to a consumer.
func (s *subscription) assign(e *entry, c *Consumer, now time.Duration) {
	s.b.lastAck++
	e.ackID = s.b.lastAck
	e.state = stateLeased
	e.holder = c
	e.taken = false
	e.at = now + c.lease
	s.leased[e.ackID] = e
	s.timed.push(e)
	s.turn++
	c.give(e, s.turn)
}

// release ends the lease or the back-off of an entry, or takes it out of its
// queue, so that it can get another state.
func (s *subscription) release(e *entry) {
	switch e.state {
	case stateReady:
		if e.redelivery {
			s.redelivered.remove(e)
		} else {
			s.fresh.remove(e)
		}
	case stateDelayed:
		s.timed.remove(int(e.pos))
	case stateLeased:
		s.timed.remove(int(e.pos))
		delete(s.leased, e.ackID)
		e.holder.free(e)
		s.b.touch(s) // the consumer has room again
	case stateAcked, stateGone:
	}
}

// settle marks an entry that is in no queue and no heap as acked.
func (s *subscription) settle(e *entry) {
	s.count.Acked++
	if s.config.RetainAcked {
		e.state = stateAcked
		return
	}
	s.forget(e)
}

func (s *subscription) forget(e *entry) {
	e.state = stateGone
	s.log.remove(e)
}

// lookup finds a delivery by its ack ID. A lease ends exactly at its deadline,
// even if the timer that takes it back is late.
func (s *subscription) lookup(id AckID, now time.Duration) *entry {
	e := s.leased[id]
	if e == nil || e.at <= now {
		return nil
	}
	return e
}

// fail counts a failed delivery of an entry that has just been released, and
// decides what becomes of it.
func (s *subscription) fail(e *entry, now time.Duration) {
	if p := s.config.DeadLetter; p != nil && e.attempt() >= p.MaxAttempts && s.forward(e, p) {
		return
	}
	e.failures++
	e.redelivery = true
	if d := s.config.Retry.delay(int(e.failures)); d > 0 {
		e.state = stateDelayed
		e.at = now + d
		s.timed.push(e)
		s.b.touch(s)
		return
	}
	s.makeReady(e)
}

// tickBatch bounds how many entries one timer call handles before it lets others
// have the lock: a million leases that end together must not stop the broker.
const tickBatch = 1000

// tick is the timer's call: it takes back leases that have run out and releases
// entries whose back-off is over.
func (s *subscription) tick() {
	s.b.mu.Lock()
	defer s.b.unlock()
	if s.ended {
		return
	}
	now := s.b.now()
	s.timerAt = 0
	s.b.touch(s)
	for range tickBatch {
		if len(s.timed.items) == 0 || s.timed.items[0].at > now {
			return
		}
		e := s.timed.items[0]
		wasLeased := e.state == stateLeased
		s.release(e)
		switch {
		case wasLeased && e.taken:
			s.record(Expired, e)
			s.fail(e, now)
		default: // a back-off is over, or nobody ever saw the delivery
			s.makeReady(e)
		}
	}
}

// retire drops what is older than the retention.
func (s *subscription) retire(now time.Duration) {
	for e := s.log.head; e != nil && s.config.Retention > 0 && s.retiresAt(e) <= now; e = s.log.head {
		s.drop(e)
	}
}

func (s *subscription) retiresAt(e *entry) time.Duration {
	return e.msg.PublishTime.Sub(s.b.base) + s.config.Retention
}

// drop removes an entry that nobody acked. An acked one was counted before.
func (s *subscription) drop(e *entry) {
	if e.state != stateAcked {
		s.count.Dropped++
		s.record(Dropped, e)
	}
	s.release(e)
	s.forget(e)
}

func (s *subscription) dropAll() {
	for s.log.head != nil {
		s.drop(s.log.head)
	}
}

// schedule makes sure that the timer fires when the next entry needs it. A timer
// that fires early is harmless, so it is never moved back.
func (s *subscription) schedule(now time.Duration) {
	var next time.Duration
	if len(s.timed.items) > 0 {
		next = s.timed.items[0].at
	}
	if s.log.head != nil && s.config.Retention > 0 {
		if at := s.retiresAt(s.log.head); next == 0 || at < next {
			next = at
		}
	}
	if next == 0 || (s.timerAt != 0 && s.timerAt <= next) {
		return
	}
	s.timerAt = max(next, 1)
	if s.timer == nil {
		s.timer = s.b.clock.AfterFunc(next-now, s.tick)
		return
	}
	s.timer.Reset(next - now)
}

// end stops everything that the subscription has running.
func (s *subscription) end(cause error) {
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.endConsumers(cause)
	// A stopped timer may stay referenced for a long time; the backlog must not.
	s.fresh, s.redelivered, s.log = list{}, list{}, list{}
	s.timed.items, s.leased = nil, nil
}

func (s *subscription) endConsumers(cause error) {
	for c := range s.consumers {
		c.detach(cause)
	}
}

func (s *subscription) record(k EventKind, e *entry) {
	ev := Event{
		Kind:         k,
		Time:         s.b.clock.Now(),
		Subscription: s.config.Name,
		Message:      e.msg,
		Attempt:      e.attempt(),
	}
	if e.holder != nil {
		ev.Consumer = e.holder.name
	}
	s.b.recorder.Record(ev)
}
