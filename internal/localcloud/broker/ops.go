package broker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Publish adds messages to a topic, sets their IDs and publish times, and
// returns the IDs. The broker keeps the messages; the caller must not change
// them any more. A topic without subscriptions loses them, as the service does.
func (b *Broker) Publish(topic string, msgs []*Message) ([]MessageID, error) {
	b.mu.Lock()
	defer b.unlock()
	t, err := b.topic(topic)
	if err != nil {
		return nil, err
	}
	ids := make([]MessageID, len(msgs))
	now := b.clock.Now()
	t.trim(now)
	for i, m := range msgs {
		ids[i] = b.publish(t, m, now)
	}
	return ids, nil
}

func (b *Broker) publish(t *topic, m *Message, now time.Time) MessageID {
	b.lastMessage++
	m.ID = b.lastMessage
	m.PublishTime = now
	m.size = m.Size()
	if t.config.Retention > 0 {
		t.retained = append(t.retained, m)
	}
	for _, s := range t.subs {
		s.add(m)
	}
	return m.ID
}

// attached finds a subscription that can deliver.
func (b *Broker) attached(name string) (*subscription, error) {
	s, err := b.sub(name)
	if err != nil {
		return nil, err
	}
	if s.config.Detached {
		return nil, &ResourceError{name, ErrDetached}
	}
	return s, nil
}

// Ack settles deliveries. It returns the ack IDs that did nothing: stale ones,
// because the lease has ended or the delivery has been settled before; and with
// ExactlyOnce and Ordered early ones, because an earlier message of the ordering
// key is not acked yet. The same ack may succeed later.
func (b *Broker) Ack(sub string, ids []AckID) (stale, early []AckID, err error) {
	stale, err = b.each(sub, ids, AckedLate, inOrder, func(s *subscription, e *entry, _ time.Duration) {
		switch {
		case !s.early(e):
			s.record(Acked, e)
			s.release(e)
			s.settle(e)
		case s.config.ExactlyOnce:
			early = append(early, e.ackID)
		default:
			s.record(Acked, e)
			s.release(e)
			s.count.Acked++
			e.state = stateEarly
		}
	})
	return stale, early, err
}

// Nack gives deliveries back: they count as failed and become ready again, at
// once or after the back-off of the retry policy, and with them all later
// messages of their ordering keys. It returns the stale ack IDs, as Ack does.
func (b *Broker) Nack(sub string, ids []AckID) (stale []AckID, err error) {
	// The last one first: else the nack of an earlier message of a key would take
	// back a later one, whose own nack would then be stale.
	return b.each(sub, ids, NackedLate, inReverse, func(s *subscription, e *entry, now time.Duration) {
		s.record(Nacked, e)
		s.release(e)
		s.fail(e, now)
	})
}

// Extend makes the leases of deliveries end d from now, earlier or later than
// before; d must be positive. It returns the stale ack IDs, as Ack does.
func (b *Broker) Extend(sub string, ids []AckID, d time.Duration) (stale []AckID, err error) {
	return b.each(sub, ids, 0, inOrder, func(s *subscription, e *entry, now time.Duration) {
		s.record(Extended, e)
		e.at = now + d
		s.timed.fix(int(e.pos))
		s.b.touch(s)
	})
}

// inOrder and inReverse sort entries by the publish order of their messages.
func inOrder(x, y *entry) int   { return cmp.Compare(x.msg.ID, y.msg.ID) }
func inReverse(x, y *entry) int { return cmp.Compare(y.msg.ID, x.msg.ID) }

// each carries out do for every live delivery among ids, in a subscription with
// ordering in the given order: clients put ack IDs into requests in any. The
// others it records as late; 0 records nothing.
func (b *Broker) each(sub string, ids []AckID, late EventKind, order func(x, y *entry) int,
	do func(*subscription, *entry, time.Duration),
) (stale []AckID, err error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(sub)
	if err != nil {
		return nil, err
	}
	now := b.now()
	var sorted []*entry
	for _, id := range ids {
		switch e := s.lookup(id, now); {
		case e == nil:
			stale = append(stale, id)
			if late != 0 {
				s.recordLate(late, id)
			}
		case s.config.Ordered:
			sorted = append(sorted, e)
		default:
			do(s, e, now)
		}
	}
	slices.SortFunc(sorted, order)
	for _, e := range slices.Compact(sorted) {
		if e.state == stateLeased {
			do(s, e, now)
		}
	}
	return stale, nil
}

// Names of the attributes that the service adds to a dead letter.
const (
	AttrSourceDeliveryCount       = "CloudPubSubDeadLetterSourceDeliveryCount"
	AttrSourceSubscription        = "CloudPubSubDeadLetterSourceSubscription"
	AttrSourceSubscriptionProject = "CloudPubSubDeadLetterSourceSubscriptionProject"
	AttrSourcePublishTime         = "CloudPubSubDeadLetterSourceTopicPublishTime"
)

// forward publishes an entry that is in no queue and no heap to the dead-letter
// topic, and says whether it could.
func (s *subscription) forward(e *entry, p *DeadLetterPolicy) bool {
	t, err := s.b.topic(p.Topic)
	if err != nil {
		return false
	}
	attrs := maps.Clone(e.msg.Attributes)
	if attrs == nil {
		attrs = make(map[string]string, 4)
	}
	project, name := splitName(s.config.Name)
	attrs[AttrSourceDeliveryCount] = strconv.Itoa(e.attempt())
	attrs[AttrSourceSubscription] = name
	attrs[AttrSourceSubscriptionProject] = project
	attrs[AttrSourcePublishTime] = e.msg.PublishTime.UTC().Format("2006-01-02T15:04:05.000-07:00")
	s.record(DeadLettered, e)
	s.count.DeadLettered++
	s.leave(e)
	s.forget(e)
	s.b.publish(t, &Message{Data: e.msg.Data, Attributes: attrs, OrderingKey: e.msg.OrderingKey}, s.b.clock.Now())
	return true
}

// splitName returns P and S of projects/P/subscriptions/S.
func splitName(full string) (project, name string) {
	parts := strings.Split(full, "/")
	if len(parts) != 4 {
		return "", full
	}
	return parts[1], parts[3]
}
