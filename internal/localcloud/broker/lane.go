package broker

// lane holds what a subscription with ordering has not settled of one ordering
// key, in publish order:
//
//	leased or acked early ... | next | waiting ...
//
// Only next is ready to be delivered; it takes its turn in subscription.keyed.
// While messages of the key are out, all further ones go to the same consumer,
// which may hold many of them. That is what the service calls affinity, and it is
// what lets a client keep the order without waiting for each ack.
//
// When a message comes back, by a nack or by its lease, every later one comes
// back too, even if it was acked in the meantime, as the service documents. So
// an ack that overtakes an earlier message is only final once that is acked.
type lane struct {
	key       string
	unsettled list
	next      *entry    // the first that nobody holds; nil if all are out
	out       int       // leased
	holder    *Consumer // who holds those; nil if none is out
}

// rank is the place of an entry in its lane.
type rank struct {
	lane *lane
	link links
}

func laneLinks(e *entry) *links { return &e.rank.link }

// offer makes an entry deliverable that is in no queue, no heap and no lane.
func (s *subscription) offer(e *entry) {
	if s.config.Ordered && e.msg.OrderingKey != "" {
		s.join(e)
		return
	}
	s.makeReady(e)
}

// join adds an entry at the end of the lane of its key.
func (s *subscription) join(e *entry) {
	l := s.lanes[e.msg.OrderingKey]
	if l == nil {
		l = &lane{key: e.msg.OrderingKey, unsettled: list{at: laneLinks}}
		s.lanes[l.key] = l
	}
	e.rank = &rank{lane: l}
	l.unsettled.pushBack(e)
	if l.next == nil {
		l.next = e
		s.makeReady(e)
		return
	}
	s.wait(e)
}

// wait lets an entry that is in no queue and no heap wait for those before it.
func (s *subscription) wait(e *entry) {
	e.state = stateWaiting
	s.waiting++
}

// park lets the next entry of a lane wait until the holder of the lane has room.
func (s *subscription) park(e *entry, c *Consumer) {
	e.state = stateParked
	s.waiting++
	c.parked.pushBack(e)
}

// unpark puts an entry back into its queue, at the front: it has had its turn.
func (s *subscription) unpark(e *entry) {
	s.release(e)
	e.state = stateReady
	s.keyed.pushFront(e)
	s.b.touch(s)
}

// unparkAny unparks an entry whose holder has room, and reports whether there was
// one. Mostly place has done that already; but what it unparks may go to another
// consumer after all, since the lane may have been free by then.
func (s *subscription) unparkAny() bool {
	if s.waiting == 0 {
		return false
	}
	for _, c := range s.roomy.items {
		if e := c.parked.head; e != nil {
			s.unpark(e)
			return true
		}
	}
	return false
}

// sent notes that the next entry of a lane has been leased to c.
func (s *subscription) sent(e *entry, c *Consumer) {
	l := e.rank.lane
	l.holder = c
	l.out++
	s.advance(l, e.rank.link.next)
}

// advance makes e, which waits, the next of its lane.
func (s *subscription) advance(l *lane, e *entry) {
	l.next = e
	if e != nil {
		s.release(e)
		s.makeReady(e)
	}
}

// returned notes that an entry of a lane is no longer leased.
func (s *subscription) returned(l *lane) {
	l.out--
	if l.out > 0 {
		return
	}
	if l.next != nil && l.next.state == stateParked {
		s.unpark(l.next)
	}
	l.holder = nil
}

// leave takes an entry that is in no queue and no heap out of its lane, and
// makes the early acks final that only waited for it.
func (s *subscription) leave(e *entry) {
	if e.rank == nil {
		return
	}
	l := e.rank.lane
	s.remove(e)
	for first := l.unsettled.head; first != nil && first.state == stateEarly; first = l.unsettled.head {
		s.remove(first)
		s.retain(first)
	}
	if l.unsettled.len == 0 {
		delete(s.lanes, l.key)
	}
}

func (s *subscription) remove(e *entry) {
	l := e.rank.lane
	if l.next == e {
		s.advance(l, e.rank.link.next)
	}
	l.unsettled.remove(e)
	e.rank = nil
}

// early reports whether an earlier message of the entry's key is not acked yet.
func (s *subscription) early(e *entry) bool {
	return e.rank != nil && e.rank.lane.unsettled.head != e
}

// rewind makes e, which is in no queue and no heap, the next of its lane again,
// and takes back all that came after it.
func (s *subscription) rewind(e *entry) {
	if e.rank == nil {
		return
	}
	l := e.rank.lane
	old := l.next
	if old != nil {
		s.release(old)
		s.wait(old)
	}
	l.next = e
	for x := e.rank.link.next; x != nil && x != old; x = x.rank.link.next {
		if x.state == stateEarly {
			s.count.Acked--
		}
		s.recordReturn(x)
		s.release(x)
		x.redelivery = true
		s.wait(x)
	}
}

// recordReturn records that an entry will be delivered again, if anybody has seen
// it.
func (s *subscription) recordReturn(e *entry) {
	if e.state == stateEarly || e.state == stateLeased && e.taken {
		s.record(Returned, e)
	}
}

// disband takes every entry out of its lane. Those that were not acked are then
// idle; the caller offers them again.
func (s *subscription) disband() {
	for e := s.log.head; e != nil; e = e.log.next {
		if e.rank == nil {
			continue
		}
		acked := e.state == stateEarly
		if !acked {
			s.recordReturn(e)
		}
		s.release(e)
		e.state = stateIdle
		if acked {
			e.state = stateAcked
		}
	}
	for e := s.log.head; e != nil; e = e.log.next {
		e.rank = nil
	}
	clear(s.lanes)
}
