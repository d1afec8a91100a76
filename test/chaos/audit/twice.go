package audit

// twice is the second half of G4, and no GPU time spent twice by one worker: once
// the model has answered for an item, the worker that holds the result does not
// begin on the item again before it has settled one of its deliveries. A
// settlement ends the item's stay: what comes after it is the first half's
// question, or a new delivery of an item that was given back.
func (c *checker) twice() {
	type stay struct {
		worker string
		item   Key
	}
	answered := map[stay]*Event{}
	for i := range c.events {
		e := &c.events[i]
		at := stay{e.Worker, e.Item}
		switch e.Kind {
		case Answered:
			answered[at] = e
		case Acked, Nacked, Expired:
			delete(answered, at)
		case Modelled:
			before := answered[at]
			delete(answered, at)
			if before == nil {
				continue
			}
			from := before.At
			// Excused: a settlement that Pub/Sub may have lost, a lease that may
			// have been; and a worker that stood still and has lost it.
			if c.troubled(from, e.At) || c.stopped(e.Worker, from, e.At) {
				continue
			}
			c.report("G4", e, "the model began anew on an item that it had answered for at %.3fs, in the same worker", from.Seconds())
		}
	}
}
