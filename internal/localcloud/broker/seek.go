package broker

import "time"

// Seek marks everything published before t as acked, and everything that is
// kept and was published at t or later as not acked. Kept is what the
// subscription holds and what its topic retains, also from before the
// subscription existed. A t in the future also settles what is published until
// then. It touches every entry that is kept.
func (b *Broker) Seek(sub string, t time.Time) error {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.attached(sub)
	if err != nil {
		return err
	}
	s.seekTo = t
	s.retire(b.now())
	s.recall(t)
	s.disband()
	for e := s.log.head; e != nil; {
		next := e.log.next
		s.rejudge(e, e.msg.PublishTime.Before(t))
		e = next
	}
	b.touch(s)
	return nil
}

// rejudge gives an entry the state that a seek asks for.
func (s *subscription) rejudge(e *entry, acked bool) {
	switch {
	case acked && e.state == stateAcked:
		s.retain(e)
	case acked:
		s.record(Acked, e)
		s.release(e)
		s.settle(e)
	case e.state == stateAcked:
		s.record(Returned, e)
		s.count.Acked--
		e.failures, e.redelivery, e.holder = 0, false, nil
		s.offer(e)
	case e.state == stateIdle:
		s.offer(e)
	}
}

// recall adds the messages since t that the topic retains and the subscription
// does not, as acked ones. They count as published once more.
func (s *subscription) recall(t time.Time) {
	if s.topic == nil {
		return
	}
	s.topic.trim(s.b.clock.Now())
	at := s.log.head
	for _, m := range s.topic.retained {
		if m.PublishTime.Before(t) || !s.config.matches(m) {
			continue
		}
		for at != nil && at.msg.ID < m.ID {
			at = at.log.next
		}
		if at != nil && at.msg == m {
			continue
		}
		s.count.Published++
		s.count.Acked++
		s.log.insert(&entry{msg: m, pos: -1, state: stateAcked}, at)
	}
}

// trim forgets what is older than the topic's retention. Nothing calls it at the
// right moment if nobody publishes or seeks: then it is a matter of memory only.
func (t *topic) trim(now time.Time) {
	n := 0
	for n < len(t.retained) && !t.retained[n].PublishTime.Add(t.config.Retention).After(now) {
		n++
	}
	clear(t.retained[:n])
	t.retained = t.retained[n:]
}
