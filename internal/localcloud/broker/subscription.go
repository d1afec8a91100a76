package broker

import (
	"math"
	"time"
)

// subscription holds the entries of one subscription. All of it is guarded by
// Broker.mu.
type subscription struct {
	b      *Broker
	config SubscriptionConfig
	topic  *topic // nil once it is deleted or detached
	ended  bool   // deleted, or the broker is closed
	dirty  bool   // listed in Broker.dirty

	fresh       list // ready, in publish order
	redelivered list // ready again, in the order in which they came back
	keyed       list // ready, the next ones of their lanes
	queueTurn   int  // whose turn it is when several queues have entries
	log         list // every entry that the subscription still keeps, in publish order

	lanes   map[string]*lane // by ordering key; only those with unsettled entries
	waiting int              // entries that wait in lanes, parked ones included

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
		keyed:       list{at: queueLinks},
		lanes:       make(map[string]*lane),
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
	switch {
	case !s.config.matches(m):
		s.record(Acked, e)
		s.count.Acked++
		s.forget(e) // a seek does not bring it back either
	case m.PublishTime.Before(s.seekTo):
		s.settle(e)
	default:
		s.offer(e)
	}
}

// makeReady puts an entry that is in no queue and no heap into its queue.
func (s *subscription) makeReady(e *entry) {
	e.state = stateReady
	s.queue(e).pushBack(e)
	s.b.touch(s)
}

// queue returns the queue of an entry when it is ready.
func (s *subscription) queue(e *entry) *list {
	switch {
	case e.rank != nil:
		return &s.keyed
	case e.redelivery:
		return &s.redelivered
	}
	return &s.fresh
}

// take removes the next ready entry from its queue. The queues take turns: a
// redelivery does not wait behind a long backlog, a message that is nacked again
// and again does not hold up the fresh ones, and each ordering key gets its share.
func (s *subscription) take() *entry {
	queues := [...]*list{&s.redelivered, &s.fresh, &s.keyed}
	for range queues {
		q := queues[s.queueTurn]
		s.queueTurn = (s.queueTurn + 1) % len(queues)
		if e := q.head; e != nil {
			q.remove(e)
			return e
		}
	}
	return nil
}

// dispatch hands ready entries to the consumers that have room for them.
func (s *subscription) dispatch(now time.Duration) {
	s.retire(now)
	for len(s.roomy.items) > 0 {
		e := s.take()
		if e == nil {
			if !s.unparkAny() {
				return
			}
			continue
		}
		c := s.choose(e)
		if !c.hasRoom() {
			s.park(e, c)
			continue
		}
		s.assign(e, c, now)
	}
}

// choose returns the best consumer that has room; for a redelivery the best
// other than its last holder, if there is one. There must be one with room. If
// earlier messages of the entry's key are out, it is who holds them, with room or
// without.
func (s *subscription) choose(e *entry) *Consumer {
	if e.rank != nil && e.rank.lane.holder != nil {
		return e.rank.lane.holder
	}
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
	if e.rank != nil {
		s.sent(e, c)
	}
}

// release ends the lease or the back-off of an entry, or takes it out of its
// queue, so that it can get another state.
func (s *subscription) release(e *entry) {
	switch e.state {
	case stateReady:
		s.queue(e).remove(e)
	case stateDelayed:
		s.timed.remove(int(e.pos))
	case stateLeased:
		s.timed.remove(int(e.pos))
		delete(s.leased, e.ackID)
		e.holder.free(e)
		s.b.touch(s) // the consumer has room again
		if e.rank != nil {
			s.returned(e.rank.lane)
		}
	case stateWaiting:
		s.waiting--
	case stateParked:
		s.waiting--
		e.rank.lane.holder.parked.remove(e)
	case stateAcked, stateEarly, stateIdle, stateGone:
	}
}

// settle marks an entry that is in no queue and no heap as acked.
func (s *subscription) settle(e *entry) {
	s.count.Acked++
	s.leave(e)
	s.retain(e)
}

// retain keeps an acked entry for Seek if the subscription wants that.
func (s *subscription) retain(e *entry) {
	if s.config.RetainAcked {
		e.state = stateAcked
		return
	}
	s.forget(e)
}

// forgetAcked drops what was kept for Seek only, once that is no longer wanted.
func (s *subscription) forgetAcked() {
	for e := s.log.head; e != nil; {
		next := e.log.next
		if e.state == stateAcked {
			s.forget(e)
		}
		e = next
	}
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
	s.comeBack(e)
	if d := s.config.Retry.delay(int(e.failures)); d > 0 {
		e.state = stateDelayed
		e.at = now + d
		s.timed.push(e)
		s.b.touch(s)
		return
	}
	s.makeReady(e)
}

// comeBack marks a released entry as one that was delivered before.
func (s *subscription) comeBack(e *entry) {
	e.redelivery = true
	s.rewind(e)
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
		case wasLeased: // nobody ever saw the delivery
			s.rewind(e)
			s.makeReady(e)
		default: // a back-off is over
			s.makeReady(e)
		}
	}
}

// retire drops what is older than the retention.
func (s *subscription) retire(now time.Duration) {
	for e := s.log.head; e != nil && s.retiresAt(e) <= now; e = s.log.head {
		s.drop(e)
	}
}

// retiresAt returns when an entry is too old to be kept.
func (s *subscription) retiresAt(e *entry) time.Duration {
	keep := s.config.Retention
	if keep <= 0 {
		return math.MaxInt64
	}
	if s.topic != nil {
		keep = max(keep, s.topic.config.Retention)
	}
	return e.msg.PublishTime.Sub(s.b.base) + keep
}

// drop removes an entry that nobody acked. An acked one was counted before.
func (s *subscription) drop(e *entry) {
	if e.state != stateAcked && e.state != stateEarly {
		s.count.Dropped++
		s.record(Dropped, e)
	}
	s.release(e)
	s.leave(e)
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
	if s.log.head != nil {
		if at := s.retiresAt(s.log.head); at < math.MaxInt64 && (next == 0 || at < next) {
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
	s.fresh, s.redelivered, s.keyed, s.log = list{}, list{}, list{}, list{}
	s.lanes = nil
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
		AckID:        e.ackID,
		Attempt:      e.attempt(),
	}
	if e.holder != nil {
		ev.Consumer = e.holder.name
	}
	s.b.recorder.Record(ev)
}

// recordLate records a call for a delivery that is over.
func (s *subscription) recordLate(k EventKind, id AckID) {
	s.b.recorder.Record(Event{Kind: k, Time: s.b.clock.Now(), Subscription: s.config.Name, AckID: id})
}
