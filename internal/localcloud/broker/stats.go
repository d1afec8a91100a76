package broker

// Counts tell where the messages of a subscription are. At any time
// Published = Ready + Delayed + Leased + Acked + DeadLettered + Dropped.
type Counts struct {
	Published    int // since the subscription was created
	Ready        int // deliverable now, or after earlier messages of the same ordering key
	Delayed      int // wait for the back-off of the retry policy
	Leased       int // held by consumers
	Acked        int // acked; Seek may take some back
	DeadLettered int // forwarded to the dead-letter topic
	Dropped      int // older than the retention, or lost by Detach
	Consumers    int // streams and waiting pulls; no messages
}

// Counts returns the counts of a subscription.
func (b *Broker) Counts(sub string) (Counts, error) {
	b.mu.Lock()
	defer b.unlock()
	s, err := b.sub(sub)
	if err != nil {
		return Counts{}, err
	}
	c := s.count
	c.Ready = s.fresh.len + s.redelivered.len + s.keyed.len + s.waiting
	c.Leased = len(s.leased)
	c.Delayed = len(s.timed.items) - c.Leased
	c.Consumers = len(s.consumers)
	return c, nil
}
