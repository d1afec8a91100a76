package broker

import "time"

// MessageID numbers the messages of one broker, from 1.
type MessageID uint64

// AckID names one delivery. Every delivery gets a new one, and no two deliveries
// of one broker share one, so an old ID can never touch a newer delivery.
type AckID uint64

// Message is one published message. All subscriptions share the record, so
// nobody may change it after Publish.
type Message struct {
	// ID and PublishTime are set by Publish.
	ID          MessageID
	PublishTime time.Time
	Data        []byte
	Attributes  map[string]string
	OrderingKey string // acted on by subscriptions with Ordered

	size int // bytes of data, attributes and ordering key, for flow control
}

// Size returns the bytes of data, attributes and ordering key.
func (m *Message) Size() int {
	if m.size != 0 {
		return m.size
	}
	n := len(m.Data) + len(m.OrderingKey)
	for k, v := range m.Attributes {
		n += len(k) + len(v)
	}
	return n
}

// Delivery is a message handed to a consumer under a lease.
type Delivery struct {
	AckID   AckID
	Message *Message
	Attempt int // 1 + nacks + expired leases so far
}

// state is where an entry is in its life.
type state uint8

const (
	stateReady   state = iota // in one of the three queues
	stateDelayed              // waits for its back-off, in the heap
	stateLeased               // held by a consumer, in the heap
	stateAcked                // kept for Seek only
	stateGone                 // left the subscription
	stateIdle                 // none of these; never outside of an operation

	// These exist in lanes only.
	stateWaiting // an earlier message of the key has not been delivered
	stateParked  // the consumer that holds earlier ones has no room, in its list
	stateEarly   // acked, but an earlier message of the key is not
)

// entry is one message in one subscription. It is the only per-message cost of
// a further subscription, so its size matters: 88 bytes.
type entry struct {
	msg *Message
	// at is when the lease or back-off ends, as an offset from Broker.base.
	at time.Duration
	// ackID is the current delivery; it is meaningful while leased.
	ackID AckID
	// holder is who holds the message; in the other states, who held it last.
	holder *Consumer

	log, queue links
	rank       *rank // nil without an ordering key, or when settled

	pos        int32 // index in the heap
	failures   int32 // nacks and expired leases
	state      state
	redelivery bool // it was delivered before
	taken      bool // the consumer has really been given it
}

func (e *entry) attempt() int { return int(e.failures) + 1 }
