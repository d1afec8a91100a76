package workertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var (
	_ worker.Source      = (*Source)(nil)
	_ worker.DeadLetters = (*Source)(nil)
)

// Settled is what became of one delivery.
type Settled struct {
	MessageID  string
	Settlement worker.Settlement
	At         time.Time
}

// Source is a worker.Source and worker.DeadLetters in memory. It delivers what
// Add was given, at most MaxHeld at once, and delivers again what was nacked
// while Redeliver is true.
//
// It fails the test when an item is acked that has no row in Store, unless its
// run is among Cancelled.
type Source struct {
	T     testing.TB
	Store *Store
	// MaxHeld is the number of deliveries handed out at once; 0 means 64.
	MaxHeld int
	// Redeliver delivers nacked messages again, with the next attempt.
	Redeliver bool
	// Lease is how long a delivery is held at most; 0 means for ever.
	Lease time.Duration
	// Cancelled are the runs whose items may be acked without a row.
	Cancelled map[string]bool
	// OnReceive is called at each call of Receive with its number from 0; an
	// error ends the call at once, and so does a nil channel's counterpart:
	// see Break.
	OnReceive func(n int) error
	// OnBury is called for each burial, and may wait; an error refuses it.
	OnBury func(ctx context.Context) error

	mu       sync.Mutex
	queue    []worker.Delivery
	wake     chan struct{}
	settled  []Settled
	held     int
	receives int
	buried   []string
	breakOff func(error)
}

// Add queues a message of an item. Its message ID is the item's key and a
// number.
func (s *Source) Add(its ...item.Item) {
	for _, it := range its {
		s.AddRaw(it.Data, it.Attributes())
	}
}

// AddAttempt is Add for messages that were delivered before.
func (s *Source) AddAttempt(attempt int, its ...item.Item) {
	for _, it := range its {
		s.add(it.Data, it.Attributes(), attempt)
	}
}

// AddRaw queues a message of any shape.
func (s *Source) AddRaw(data []byte, attrs map[string]string) { s.add(data, attrs, 1) }

func (s *Source) add(data []byte, attrs map[string]string, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("%s/%s", attrs[item.AttrRunID], attrs[item.AttrItemID])
	s.queue = append(s.queue, worker.Delivery{MessageID: id, Data: data, Attributes: attrs, Attempt: attempt})
	s.wakeLocked()
}

func (s *Source) wakeLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// take returns the next delivery, or a channel that is closed when there may
// be one.
func (s *Source) take() (*worker.Delivery, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.MaxHeld
	if most == 0 {
		most = 64
	}
	if len(s.queue) == 0 || s.held >= most {
		if s.wake == nil {
			s.wake = make(chan struct{})
		}
		return nil, s.wake
	}
	d := s.queue[0]
	s.queue = s.queue[1:]
	s.held++
	if s.Lease > 0 {
		lost := make(chan struct{})
		d.Lost = lost
		time.AfterFunc(s.Lease, func() { close(lost) })
	}
	return &d, nil
}

// Receive implements worker.Source.
func (s *Source) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	s.mu.Lock()
	n := s.receives
	s.receives++
	broken := make(chan error, 1)
	s.breakOff = func(err error) { broken <- err }
	s.mu.Unlock()
	if s.OnReceive != nil {
		if err := s.OnReceive(n); err != nil {
			return err
		}
	}
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		d, wake := s.take()
		if d != nil {
			handlers.Go(func() { s.settle(d, handle(context.WithoutCancel(ctx), d)) })
			continue
		}
		select {
		case <-wake:
		case err := <-broken:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// Break ends the current Receive call with err, which may be nil.
func (s *Source) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakOff(err)
}

func (s *Source) settle(d *worker.Delivery, what worker.Settlement) {
	if what == worker.Ack {
		it, err := item.Decode(d.Data, d.Attributes)
		if it.RunID != "" && !s.Cancelled[it.RunID] && !s.Store.Has(it.Key) {
			s.T.Errorf("source: %s was acked without a stored result (decode: %v)", d.MessageID, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	s.settled = append(s.settled, Settled{MessageID: d.MessageID, Settlement: what, At: time.Now()})
	if what == worker.Nack && s.Redeliver {
		again := *d
		again.Attempt++
		s.queue = append(s.queue, again)
	}
	s.wakeLocked()
}

// Bury implements worker.DeadLetters.
func (s *Source) Bury(ctx context.Context, d *worker.Delivery, reason string) error {
	if s.OnBury != nil {
		if err := s.OnBury(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buried = append(s.buried, d.MessageID+": "+reason)
	return nil
}

// Buried returns what was buried, with the reasons.
func (s *Source) Buried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.buried)
}

// Settlements returns what became of the deliveries so far, in order.
func (s *Source) Settlements() []Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.settled)
}

// Count returns how many deliveries were settled that way.
func (s *Source) Count(what worker.Settlement) int {
	n := 0
	for _, st := range s.Settlements() {
		if st.Settlement == what {
			n++
		}
	}
	return n
}

// Held returns the number of deliveries that are not settled.
func (s *Source) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Receives returns the number of Receive calls so far.
func (s *Source) Receives() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receives
}
