package audit

// acks is G1: an ack comes after a row of its item, or, for a message that is no
// item, after its record on the dead-letter topic. No excuse.
func (c *checker) acks() {
	stored := map[Key]bool{}
	buried := map[string]bool{}
	for i := range c.events {
		switch e := &c.events[i]; {
		case e.Kind == Committed:
			stored[e.Item] = true
		case e.Kind == Published && e.Dead && e.Reason != "":
			buried[e.Foreign] = true
		case e.Kind != Acked || e.Dead:
		case e.Item == Key{} && !buried[e.Foreign]:
			c.report("G1", e, "message %d, which is no item (%q), was acked before it was on the dead-letter topic", e.Message, e.Foreign)
		case e.Item != Key{} && !stored[e.Item]:
			c.report("G1", e, "delivery %d was acked, and no commit had stored a row of the item", e.Delivery)
		}
	}
}

// settlements is the first half of G2: a delivery is acked or nacked once, and
// not after its lease.
func (c *checker) settlements() {
	for i := range c.events {
		e := &c.events[i]
		if e.Kind != AckedLate && e.Kind != NackedLate {
			continue
		}
		d := c.deliveries[e.Delivery]
		if d == nil {
			c.report("G2", e, "delivery %d never was", e.Delivery)
			continue
		}
		at := *e
		at.Item, at.Worker = d.Item, d.Worker
		first := Kind("none")
		from := d.At
		if d.end != nil {
			first = d.end.Kind
		}
		switch {
		case first == Acked && e.Kind == NackedLate, first == Nacked && e.Kind == AckedLate:
			// Never excused: what was decided is not decided anew.
			c.report("G2", &at, "delivery %d had been %s at %.3fs", e.Delivery, first, d.end.At.Seconds())
			continue
		case first == Acked, first == Nacked:
			// The same once more, as after a lost reply.
			from = max(0, d.end.At-lingering)
		}
		// Excused: a call whose reply was lost is made again; and who stood
		// still, or got a delivery or an extension late, cannot know that the
		// lease is over. Only Pub/Sub's faults and SIGSTOP do that.
		if !c.troubled(PubSub, from, e.At) && !c.stopped(d.Worker, from, e.At) {
			c.report("G2", &at, "delivery %d was over before (%s)", e.Delivery, first)
		}
	}
}

// leases is the second half of G2: who holds a delivery and lives keeps its
// lease.
func (c *checker) leases() {
	for _, d := range c.deliveries {
		if d.end == nil || d.end.Kind != Expired {
			continue
		}
		w := c.workers[d.Worker]
		switch {
		case w == nil:
			c.report("G2", d.end, "delivery %d went to a worker that is not known", d.Delivery)
		// Excused: the worker was gone; whether it should have settled the
		// delivery before is G5's question. What it does while a SIGKILL is on
		// its way is nothing.
		case w.exited <= d.end.At, w.killed <= d.end.At:
		// Excused: it stood still, or the delivery, its extension or its
		// settlement may have been lost on the way.
		case meets(w.stops, d.At, d.end.At), c.troubled(PubSub, d.At, d.end.At):
		default:
			c.report("G2", d.end, "the lease of delivery %d ran out at a healthy worker, %.1fs after the delivery", d.Delivery, (d.end.At - d.At).Seconds())
		}
	}
}
