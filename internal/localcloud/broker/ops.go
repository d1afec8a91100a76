package broker

import (
	"fmt"
	"maps"
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
		return nil, fmt.Errorf("%w: %s", ErrDetached, name)
	}
	return s, nil
}

// Ack settles deliveries. It returns the ack IDs that did nothing, because the
// lease has ended or the delivery has been settled before.
func (b *Broker) Ack(sub string, ids []AckID) (stale []AckID, err error) {
	return b.each(sub, ids, func(s *subscription, e *entry, _ time.Duration) {
		s.record(Acked, e)
		s.release(e)
		s.settle(e)
	})
}

// Nack gives deliveries back: they count as failed and become ready again, at
// once or after the back-off of the retry policy. It returns the stale ack IDs,
// as Ack does.
func (b *Broker) Nack(sub string, ids []AckID) (stale []AckID, err error) {
	return b.each(sub, ids, func(s *subscription, e *entry, now time.Duration) {
		s.record(Nacked, e)
		s.release(e)
		s.fail(e, now)
	})
}

// Extend makes the leases of deliveries end d from now, earlier or later than
// before; d must be positive. It returns the stale ack IDs, as Ack does.
func (b *Broker) Extend(sub string, ids []AckID, d time.Duration) (stale []AckID, err error) {
	return b.each(sub, ids, func(s *subscription, e *entry, now time.Duration) {
		s.record(Extended, e)
		e.at = now + d
		s.timed.fix(int(e.pos))
		s.b.touch(s)
	})
}

func (b *Broker) each(sub string, ids []AckID, do func(*subscription, *entry, time.Duration)) (stale []AckID, err error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(sub)
	if err != nil {
		return nil, err
	}
	now := b.now()
	for _, id := range ids {
		e := s.lookup(id, now)
		if e == nil {
			stale = append(stale, id)
			continue
		}
		do(s, e, now)
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

// Seek marks everything published before t as acked, and everything that is
// kept and was published at t or later as not acked. A t in the future also
// settles what is published until then. It touches every entry that is kept.
func (b *Broker) Seek(sub string, t time.Time) error {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.attached(sub)
	if err != nil {
		return err
	}
	s.seekTo = t
	for e := s.log.head; e != nil; {
		next := e.log.next
		switch before := e.msg.PublishTime.Before(t); {
		case before && e.state != stateAcked:
			s.record(Acked, e)
			s.release(e)
			s.settle(e)
		case !before && e.state == stateAcked:
			s.count.Acked--
			e.failures, e.redelivery, e.holder = 0, false, nil
			s.makeReady(e)
		}
		e = next
	}
	b.touch(s)
	return nil
}
