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
	type run struct{ began, answered *Event }
	runs := map[stay]run{}
	for i := range c.events {
		e := &c.events[i]
		at := stay{e.Worker, e.Item}
		switch e.Kind {
		case Answered:
			runs[at] = run{runs[at].began, e}
		case Acked, Nacked, Expired:
			delete(runs, at)
		case Modelled:
			before := runs[at]
			runs[at] = run{began: e}
			if before.answered == nil {
				continue
			}
			from := before.answered.At
			// Excused: a settlement that Pub/Sub may have lost, a lease that may
			// have been; and a worker that stood still and has lost it.
			if c.troubled(from, e.At) || c.stopped(e.Worker, from, e.At) {
				continue
			}
			// Excused: a run for a delivery whose lease was lost. A later delivery
			// does not join it.
			if c.lost(e.Worker, e.Item, before.began) {
				continue
			}
			c.report("G4", e, "the model began anew on an item that it had answered for at %.3fs, in the same worker", from.Seconds())
		}
	}
}

// lost reports whether the worker had a delivery of the item, from before the
// start of a run, whose lease ran out.
func (c *checker) lost(worker string, item Key, began *Event) bool {
	for _, d := range c.deliveries {
		if d.Worker == worker && d.Item == item && began != nil && d.At <= began.At && d.end != nil && d.end.Kind == Expired {
			return true
		}
	}
	return false
}
