package broker

import (
	"slices"
	"time"
)

// Bounds of what waits in a consumer between assignment and Take. They keep an
// unlimited consumer from leasing the whole backlog before it can send it.
const (
	outboxMessages = 1000
	outboxBytes    = 8 << 20
)

// ConsumerConfig says how a consumer wants its messages.
type ConsumerConfig struct {
	Name string // shown in events
	// MaxMessages and MaxBytes bound what the consumer holds, that is, has been
	// given and has neither acked, nacked nor lost. 0 is no bound. MaxBytes may be
	// exceeded by the last message.
	MaxMessages int
	MaxBytes    int
	// AckDeadline is the lease of each delivery; 0 is the subscription's.
	AckDeadline time.Duration
}

// Consumer receives deliveries from one subscription: a stream, or a waiting
// pull. One goroutine calls Take; the other methods are safe for concurrent use.
type Consumer struct {
	s    *subscription
	name string
	wake chan struct{}

	// Guarded by Broker.mu.
	maxMessages, maxBytes int
	lease                 time.Duration
	held, heldBytes       int
	outbox                []parcel
	outboxBytes           int
	parked                list   // next entries of lanes that this consumer holds, without room for them
	turn                  uint64 // when it was last given something
	pos                   int    // index in subscription.roomy; -1 if it has no room
	err                   error  // why it has ended
}

// parcel is an assignment that has not been taken. The lease may end before it
// is; then the ack ID no longer matches.
type parcel struct {
	e     *entry
	ackID AckID
}

// Attach adds a consumer to a subscription. Close it when done.
func (b *Broker) Attach(sub string, cfg ConsumerConfig) (*Consumer, error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.attached(sub)
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		s:           s,
		name:        cfg.Name,
		wake:        make(chan struct{}, 1),
		maxMessages: cfg.MaxMessages,
		maxBytes:    cfg.MaxBytes,
		lease:       cfg.AckDeadline,
		pos:         -1,
		parked:      list{at: queueLinks},
	}
	if c.lease <= 0 {
		c.lease = s.config.AckDeadline
	}
	s.consumers[c] = struct{}{}
	c.place()
	b.touch(s)
	return c, nil
}

// Wake gets a value after Take has something new to return. It never closes.
func (c *Consumer) Wake() <-chan struct{} { return c.wake }

// Take appends to dst the deliveries that have been assigned since the last
// call, until dst holds maxMessages or more than maxBytes were added; Wake fires
// again if some are left. It returns an error once the consumer has ended:
// ErrDetached, ErrSubscriptionNotFound, or ErrClosed (also after Close).
func (c *Consumer) Take(dst []Delivery, maxMessages, maxBytes int) ([]Delivery, error) {
	b := c.s.b
	b.mu.Lock()
	defer b.unlock()
	if c.err != nil {
		return dst, c.err
	}
	taken, bytes := 0, 0
	for taken < len(c.outbox) && len(dst) < maxMessages && bytes <= maxBytes {
		p := c.outbox[taken]
		taken++
		c.outboxBytes -= p.e.msg.size
		if p.e.ackID != p.ackID || p.e.state != stateLeased {
			continue // the lease ended while it waited here
		}
		p.e.taken = true
		bytes += p.e.msg.size
		c.s.record(Delivered, p.e)
		dst = append(dst, Delivery{AckID: p.ackID, Message: p.e.msg, Attempt: p.e.attempt()})
	}
	rest := copy(c.outbox, c.outbox[taken:])
	clear(c.outbox[rest:])
	c.outbox = c.outbox[:rest]
	if rest > 0 {
		c.signal()
	}
	c.place()
	b.touch(c.s)
	return dst, nil
}

// Properties tell a client how to treat the deliveries of a subscription.
type Properties struct {
	ExactlyOnce bool // an ack counts only when it is confirmed
	Ordered     bool
	Attempts    bool // deliveries are counted, since there is a dead-letter policy
}

// Properties returns those of the subscription at present. Wake fires after they
// may have changed.
func (c *Consumer) Properties() Properties {
	c.s.b.mu.Lock()
	defer c.s.b.unlock()
	return c.s.config.properties()
}

func (c *SubscriptionConfig) properties() Properties {
	return Properties{ExactlyOnce: c.ExactlyOnce, Ordered: c.Ordered, Attempts: c.DeadLetter != nil}
}

// SetAckDeadline changes the lease of later deliveries.
func (c *Consumer) SetAckDeadline(d time.Duration) {
	c.s.b.mu.Lock()
	defer c.s.b.unlock()
	c.lease = d
}

// Close ends the consumer. What it has taken stays leased until it is acked,
// nacked or runs out; what it has not taken goes to others at once.
func (c *Consumer) Close() {
	b := c.s.b
	b.mu.Lock()
	defer b.unlock()
	c.detach(ErrClosed)
}

// detach ends the consumer; the broker's lock is held.
func (c *Consumer) detach(cause error) {
	if c.err != nil {
		return
	}
	c.err = cause
	s := c.s
	delete(s.consumers, c)
	c.place()
	// Backwards, so that they come out of the queue in their old order.
	for _, p := range slices.Backward(c.outbox) {
		if p.e.ackID != p.ackID || p.e.state != stateLeased {
			continue
		}
		s.release(p.e)
		s.putBack(p.e)
	}
	c.outbox, c.outboxBytes = nil, 0
	c.signal()
	s.b.touch(s)
}

// putBack makes an entry ready again as if it had never been assigned.
func (s *subscription) putBack(e *entry) {
	s.rewind(e)
	e.state = stateReady
	s.queue(e).pushFront(e)
}

// give adds an assignment; the broker's lock is held.
func (c *Consumer) give(e *entry, turn uint64) {
	c.outbox = append(c.outbox, parcel{e: e, ackID: e.ackID})
	c.outboxBytes += e.msg.size
	c.held++
	c.heldBytes += e.msg.size
	c.turn = turn
	c.place()
	c.signal()
}

// free takes back the room of an entry that is no longer held.
func (c *Consumer) free(e *entry) {
	c.held--
	c.heldBytes -= e.msg.size
	c.place()
}

func (c *Consumer) hasRoom() bool {
	return c.err == nil &&
		(c.maxMessages <= 0 || c.held < c.maxMessages) &&
		(c.maxBytes <= 0 || c.heldBytes < c.maxBytes) &&
		len(c.outbox) < outboxMessages && c.outboxBytes < outboxBytes
}

// place puts the consumer where it belongs among those that have room, and
// releases one of the entries that wait for it to have some.
func (c *Consumer) place() {
	if e := c.parked.head; e != nil && c.hasRoom() {
		c.s.unpark(e)
	}
	h := &c.s.roomy
	switch room := c.hasRoom(); {
	case room && c.pos < 0:
		h.push(c)
	case room:
		h.fix(c.pos)
	case c.pos >= 0:
		h.remove(c.pos)
	}
}

// before orders consumers: the fewest held messages first, then the one that has
// waited longest.
func (c *Consumer) before(o *Consumer) bool {
	if c.held != o.held {
		return c.held < o.held
	}
	return c.turn < o.turn
}

// signal wakes the consumer. It never blocks: a value that waits there already
// says the same.
func (c *Consumer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
