package broker

import (
	"maps"
	"time"
)

// DeletedTopic is the topic name that a subscription shows once its topic has
// been deleted, as the service spells it.
const DeletedTopic = "_deleted-topic_"

// TopicConfig describes a topic.
type TopicConfig struct {
	Name   string            // projects/P/topics/T
	Labels map[string]string // carried only
	// Retention is how long the topic keeps every message, so that its
	// subscriptions can seek back to it; 0 keeps none.
	Retention time.Duration
}

// SubscriptionConfig describes a subscription. The broker trusts its values;
// package pubsub checks them against the service's limits.
type SubscriptionConfig struct {
	Name  string // projects/P/subscriptions/S
	Topic string // DeletedTopic once the topic is gone
	// AckDeadline is the lease of a delivery to a consumer that asks for none.
	AckDeadline time.Duration
	// Retention is how long a message is kept after its publish time; 0 is for
	// ever. A longer retention of the topic counts instead.
	Retention time.Duration
	// TopicRetention is the retention of the topic. It is set in what the broker
	// returns and ignored in what it is given.
	TopicRetention time.Duration
	// RetainAcked keeps acked messages until Retention ends, so that Seek can
	// bring them back.
	RetainAcked bool
	DeadLetter  *DeadLetterPolicy // nil: none
	Retry       *RetryPolicy      // nil: redeliver at once
	Detached    bool              // set by Detach

	// ExactlyOnce changes nothing in the broker, which never delivers a message
	// that is leased or acked, except this: an ack that overtakes an earlier
	// message of its ordering key is refused.
	ExactlyOnce bool
	// Ordered delivers the messages of an ordering key in publish order. It must
	// not change.
	Ordered bool
	// Filter is the text of Match, carried only. Match says which messages the
	// subscription wants; the others count as acked at once. A nil Match wants
	// all. Neither must change.
	Filter string
	Match  func(attributes map[string]string) bool

	Labels map[string]string // carried only
	// ExpirationTTL is carried only: idle subscriptions never expire here. 0 is never.
	ExpirationTTL time.Duration
}

// DeadLetterPolicy moves a message to Topic after MaxAttempts failed deliveries.
// While Topic does not exist the message stays and is delivered again.
type DeadLetterPolicy struct {
	Topic       string
	MaxAttempts int
}

// RetryPolicy delays the redelivery after the n-th failure by Min * 2^(n-1), at
// most Max.
type RetryPolicy struct {
	Min, Max time.Duration
}

func (p *RetryPolicy) delay(failures int) time.Duration {
	if p == nil {
		return 0
	}
	d := p.Min
	for range failures - 1 {
		if d >= p.Max {
			break
		}
		d *= 2
	}
	return min(d, p.Max)
}

func (c *SubscriptionConfig) matches(m *Message) bool {
	return c.Match == nil || c.Match(m.Attributes)
}

func (c TopicConfig) clone() TopicConfig {
	c.Labels = maps.Clone(c.Labels)
	return c
}

func (c SubscriptionConfig) clone() SubscriptionConfig {
	c.Labels = maps.Clone(c.Labels)
	if c.DeadLetter != nil {
		p := *c.DeadLetter
		c.DeadLetter = &p
	}
	if c.Retry != nil {
		p := *c.Retry
		c.Retry = &p
	}
	return c
}
