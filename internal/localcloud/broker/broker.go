package broker

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Broker holds topics and subscriptions. It is safe for concurrent use. Use New.
type Broker struct {
	clock    Clock
	recorder Recorder
	base     time.Time // entries keep times as offsets from it

	mu          sync.Mutex
	closed      bool
	topics      map[string]*topic
	subs        map[string]*subscription
	lastMessage MessageID
	lastAck     AckID
	dirty       []*subscription // changed by the current operation; settled by unlock
}

type topic struct {
	config   TopicConfig
	subs     []*subscription // in order of creation
	retained []*Message      // the last ones, in publish order, if the topic has a retention
}

// New returns an empty broker. A nil clock is the SystemClock, a nil recorder is
// NoRecorder. Close it when done.
func New(clock Clock, recorder Recorder) *Broker {
	if clock == nil {
		clock = SystemClock{}
	}
	if recorder == nil {
		recorder = NoRecorder{}
	}
	return &Broker{
		clock:    clock,
		recorder: recorder,
		base:     clock.Now(),
		topics:   make(map[string]*topic),
		subs:     make(map[string]*subscription),
	}
}

// Close stops all timers and ends all consumers with ErrClosed. Every later call
// answers ErrClosed. Calling it again does nothing.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.unlock()
	b.closed = true
	for _, s := range b.subs {
		s.end(ErrClosed)
	}
	clear(b.subs)
	clear(b.topics)
}

func (b *Broker) now() time.Duration { return b.clock.Now().Sub(b.base) }

// touch remembers that s has messages to hand out or a timer to set. Doing that
// only in unlock keeps operations that span subscriptions (dead letters) free of
// recursion.
func (b *Broker) touch(s *subscription) {
	if !s.dirty {
		s.dirty = true
		b.dirty = append(b.dirty, s)
	}
}

// unlock settles every touched subscription and unlocks.
func (b *Broker) unlock() {
	if len(b.dirty) > 0 {
		now := b.now()
		for i, s := range b.dirty {
			if !s.ended {
				s.dispatch(now)
				s.schedule(now)
			}
			s.dirty = false // only now: what dispatch touches, it settles itself
			b.dirty[i] = nil
		}
		b.dirty = b.dirty[:0]
	}
	b.mu.Unlock()
}

func (b *Broker) topic(name string) (*topic, error) {
	if b.closed {
		return nil, ErrClosed
	}
	t, ok := b.topics[name]
	if !ok {
		return nil, &ResourceError{name, ErrTopicNotFound}
	}
	return t, nil
}

func (b *Broker) sub(name string) (*subscription, error) {
	if b.closed {
		return nil, ErrClosed
	}
	s, ok := b.subs[name]
	if !ok {
		return nil, &ResourceError{name, ErrSubscriptionNotFound}
	}
	return s, nil
}

// CreateTopic adds a topic, or answers ErrExists.
func (b *Broker) CreateTopic(c TopicConfig) error {
	b.mu.Lock()
	defer b.unlock()
	switch _, err := b.topic(c.Name); {
	case err == nil:
		return &ResourceError{c.Name, ErrExists}
	case errors.Is(err, ErrClosed):
		return err
	}
	b.topics[c.Name] = &topic{config: c.clone()}
	return nil
}

// Topic returns the description of a topic.
func (b *Broker) Topic(name string) (TopicConfig, error) {
	b.mu.Lock()
	defer b.unlock()
	t, err := b.topic(name)
	if err != nil {
		return TopicConfig{}, err
	}
	return t.config.clone(), nil
}

// UpdateTopic lets change edit the description of a topic and returns the
// result. change runs under the broker's lock and cannot rename the topic. If it
// returns an error nothing changes.
func (b *Broker) UpdateTopic(name string, change func(*TopicConfig) error) (TopicConfig, error) {
	b.mu.Lock()
	defer b.unlock()
	t, err := b.topic(name)
	if err != nil {
		return TopicConfig{}, err
	}
	c := t.config.clone()
	if err := change(&c); err != nil {
		return TopicConfig{}, err
	}
	c.Name = name
	t.config = c
	t.trim(b.clock.Now())
	for _, s := range t.subs {
		b.touch(s) // the retention may end earlier now
	}
	return c.clone(), nil
}

// DeleteTopic removes a topic. Its subscriptions stay, with what they hold.
func (b *Broker) DeleteTopic(name string) error {
	b.mu.Lock()
	defer b.unlock()
	t, err := b.topic(name)
	if err != nil {
		return err
	}
	for _, s := range t.subs {
		s.config.Topic = DeletedTopic
		s.topic = nil
		b.touch(s)
	}
	delete(b.topics, name)
	return nil
}

// Topics lists all topics, ordered by name.
func (b *Broker) Topics() []TopicConfig {
	b.mu.Lock()
	defer b.unlock()
	all := make([]TopicConfig, 0, len(b.topics))
	for _, name := range slices.Sorted(maps.Keys(b.topics)) {
		all = append(all, b.topics[name].config.clone())
	}
	return all
}

// TopicSubscriptions lists the names of the subscriptions attached to a topic,
// in order.
func (b *Broker) TopicSubscriptions(name string) ([]string, error) {
	b.mu.Lock()
	defer b.unlock()
	t, err := b.topic(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(t.subs))
	for _, s := range t.subs {
		names = append(names, s.config.Name)
	}
	slices.Sort(names)
	return names, nil
}

// CreateSubscription adds a subscription that gets the messages published from
// now on. The topic, and the dead-letter topic if there is one, must exist.
func (b *Broker) CreateSubscription(c SubscriptionConfig) error {
	b.mu.Lock()
	defer b.unlock()
	switch _, err := b.sub(c.Name); {
	case err == nil:
		return &ResourceError{c.Name, ErrExists}
	case errors.Is(err, ErrClosed):
		return err
	}
	t, err := b.topic(c.Topic)
	if err != nil {
		return err
	}
	if err := b.checkDeadLetter(c.DeadLetter); err != nil {
		return err
	}
	c = c.clone()
	c.Detached = false
	s := newSubscription(b, c)
	s.topic = t
	b.subs[c.Name] = s
	t.subs = append(t.subs, s)
	return nil
}

func (b *Broker) checkDeadLetter(p *DeadLetterPolicy) error {
	if p == nil {
		return nil
	}
	_, err := b.topic(p.Topic)
	return err
}

// Subscription returns the description of a subscription.
func (b *Broker) Subscription(name string) (SubscriptionConfig, error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(name)
	if err != nil {
		return SubscriptionConfig{}, err
	}
	return s.describe(), nil
}

// Properties returns what clients must know of a subscription to treat its
// deliveries right. It costs less than Subscription.
func (b *Broker) Properties(name string) (Properties, error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(name)
	if err != nil {
		return Properties{}, err
	}
	return s.config.properties(), nil
}

// describe returns the description with what the topic adds to it.
func (s *subscription) describe() SubscriptionConfig {
	c := s.config.clone()
	if s.topic != nil {
		c.TopicRetention = s.topic.config.Retention
	}
	return c
}

// UpdateSubscription lets change edit the description of a subscription and
// returns the result. change runs under the broker's lock; it cannot rename the
// subscription, move it to another topic, or change its order or filter. If it returns an error, or names a
// dead-letter topic that does not exist, nothing changes.
func (b *Broker) UpdateSubscription(name string, change func(*SubscriptionConfig) error) (SubscriptionConfig, error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(name)
	if err != nil {
		return SubscriptionConfig{}, err
	}
	c := s.describe()
	if err := change(&c); err != nil {
		return SubscriptionConfig{}, err
	}
	if old := s.config.DeadLetter; c.DeadLetter != nil && (old == nil || old.Topic != c.DeadLetter.Topic) {
		if err := b.checkDeadLetter(c.DeadLetter); err != nil {
			return SubscriptionConfig{}, err
		}
	}
	c.Name, c.Topic, c.Detached = s.config.Name, s.config.Topic, s.config.Detached
	c.Ordered, c.Filter, c.Match = s.config.Ordered, s.config.Filter, s.config.Match
	if s.config.RetainAcked && !c.RetainAcked {
		s.forgetAcked()
	}
	s.config = c
	b.touch(s) // the retention may end earlier now
	for c := range s.consumers {
		c.signal() // their properties may be others now
	}
	return s.describe(), nil
}

// DeleteSubscription removes a subscription and all it holds. Its consumers end
// with ErrSubscriptionNotFound.
func (b *Broker) DeleteSubscription(name string) error {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(name)
	if err != nil {
		return err
	}
	b.unlink(s)
	delete(b.subs, name)
	s.end(&ResourceError{name, ErrSubscriptionNotFound})
	return nil
}

// Detach cuts a subscription off its topic and drops all it holds. Its consumers
// end with ErrDetached.
func (b *Broker) Detach(name string) error {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(name)
	if err != nil {
		return err
	}
	b.unlink(s)
	s.config.Detached = true
	s.dropAll()
	s.endConsumers(&ResourceError{name, ErrDetached})
	return nil
}

func (b *Broker) unlink(s *subscription) {
	if t, ok := b.topics[s.config.Topic]; ok {
		t.subs = slices.DeleteFunc(t.subs, func(x *subscription) bool { return x == s })
		s.topic = nil
	}
}

// Subscriptions lists all subscriptions, ordered by name.
func (b *Broker) Subscriptions() []SubscriptionConfig {
	b.mu.Lock()
	defer b.unlock()
	all := make([]SubscriptionConfig, 0, len(b.subs))
	for _, s := range b.subs {
		all = append(all, s.describe())
	}
	slices.SortFunc(all, func(x, y SubscriptionConfig) int { return cmp.Compare(x.Name, y.Name) })
	return all
}
