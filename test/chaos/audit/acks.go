package audit

import "time"

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

// prompt is how long after SIGCONT a call may still arrive that was decided on
// before SIGSTOP, and resent how long a call that seems to have failed meanwhile
// is made again.
const (
	prompt = time.Second
	resent = 2500 * time.Millisecond
)

// settlements is the first half of G2: a delivery is acked or nacked once, and
// not after its lease.
func (c *checker) settlements() {
	for i := range c.events {
		e := &c.events[i]
		if e.Kind != AckedLate && e.Kind != NackedLate {
			continue
		}
		d := c.deliveries[e.Delivery]
		if d == nil || d.end == nil {
			c.report("G2", e, "delivery %d never was", e.Delivery)
			continue
		}
		at := *e
		at.Item, at.Worker = d.Item, d.Worker
		first := d.end.Kind
		switch {
		case first == Acked && e.Kind == NackedLate, first == Nacked && e.Kind == AckedLate:
			// Never excused: what was decided is not decided anew.
			c.report("G2", &at, "delivery %d had been %s at %.3fs", e.Delivery, first, d.end.At.Seconds())
		case (first == Acked || first == Nacked) && !c.again(d, e):
			c.report("G2", &at, "delivery %d was %s before, and no reply can have been lost", e.Delivery, first)
		case first == Expired && !c.unaware(d, e):
			c.report("G2", &at, "the lease of delivery %d had run out at %.3fs", e.Delivery, d.end.At.Seconds())
		}
	}
}

// again reports whether a settlement may be the same one once more.
//
// Excused: a call whose reply was lost is made again, and to a process that
// stood still every call seems to have failed.
func (c *checker) again(d *delivery, e *Event) bool {
	return c.troubled(max(0, d.end.At-lingering), e.At) || c.stopped(d.Worker, max(0, d.end.At-lingering), e.At) && c.woke(d.Worker, e.At, resent)
}

// unaware reports whether the worker may have taken the lease for its own when
// it settled.
//
// Excused: a lease of which the beginning or an extension came late through
// Pub/Sub's fault; a delivery that came while the process stood still, which
// therefore counts its lease from too late; and a call that was about to be
// made when the process was stopped.
func (c *checker) unaware(d *delivery, e *Event) bool {
	return c.troubled(d.At, e.At) || c.stopped(d.Worker, d.At, d.At) ||
		c.stopped(d.Worker, d.At, d.end.At) && c.woke(d.Worker, e.At, prompt)
}

// woke reports whether the worker went on at most so long before, or has not yet.
func (c *checker) woke(worker string, at, before time.Duration) bool {
	for _, s := range c.workers[worker].stops {
		if s.from <= at && s.to >= at-before {
			return true
		}
	}
	return false
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
		case meets(w.stops, d.At, d.end.At), c.troubled(d.At, d.end.At):
		default:
			c.report("G2", d.end, "the lease of delivery %d ran out at a healthy worker, %.1fs after the delivery", d.Delivery, (d.end.At - d.At).Seconds())
		}
	}
}
