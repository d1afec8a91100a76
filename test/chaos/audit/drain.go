package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// punctual is how late an exit may be seen: the process has to be reaped, on a
// machine that is busy.
const punctual = 500 * time.Millisecond

// lives returns the worker processes in the order of their start.
func (c *checker) lives() []*life {
	return slices.SortedFunc(maps.Values(c.workers), func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.name, b.name))
	})
}

// exits is the part of G6 that is about processes which nobody stopped: a worker
// does not end by itself. No excuse: a service that does not answer, at the
// start or later, is waited for.
func (c *checker) exits() {
	for _, w := range c.lives() {
		if w.exited == open || w.exited >= min(w.termed, w.killed) {
			continue
		}
		c.report("G6", &Event{At: w.exited, Worker: w.name}, "the worker ended by itself, exit code %d", w.code)
	}
}

// drains is G5: after SIGTERM a worker exits with code 0 within drain.timeout,
// and everything it held has been acked or nacked by then.
func (c *checker) drains() {
	for _, w := range c.lives() {
		// Excused: a process that was killed or stood still while it drained.
		if w.termed == open || w.killed < w.exited || meets(w.stops, w.termed, w.exited) {
			continue
		}
		at := &Event{At: w.termed, Worker: w.name}
		took := w.exited - w.termed
		switch {
		case w.exited == open:
			c.report("G5", at, "the worker has not exited %.1fs after SIGTERM", (c.last - w.termed).Seconds())
			continue
		case w.code != 0:
			c.report("G5", at, "exit code %d after SIGTERM, want 0", w.code)
		case took > c.facts.Drain+punctual:
			c.report("G5", at, "the exit took %.1fs after SIGTERM, want at most %.1fs", took.Seconds(), c.facts.Drain.Seconds())
		}
		c.leftBehind(w)
		c.heldBack(w)
	}
}

// leftBehind reports the deliveries that an exited worker neither acked nor
// nacked.
func (c *checker) leftBehind(w *life) {
	for _, d := range c.deliveries {
		switch {
		case d.Worker != w.name, d.end != nil && d.end.At <= w.exited:
		// Excused: the delivery, its extension or its settlement may have been
		// lost on the way.
		case c.troubled(d.At, w.exited):
		// Excused: it stood still, and could not know whether the lease had
		// been kept.
		case meets(w.stops, d.At, w.exited):
		default:
			e := d.Event
			e.At = w.exited
			c.report("G5", &e, "delivery %d, held since %.3fs, was neither acked nor nacked when the worker exited %.1fs after SIGTERM",
				d.Delivery, d.At.Seconds(), (w.exited - w.termed).Seconds())
		}
	}
}

// atOnce is how long after SIGTERM a nack may arrive that is sent at once: the
// stream is closed first, for at most 250ms, and the machine is busy.
const atOnce = 1500 * time.Millisecond

// heldBack reports the deliveries that had no part in the model and were kept all
// the same, when others could have gone on with them.
func (c *checker) heldBack(w *life) {
	begun := map[Key]bool{} // items that the worker's model began on
	for i := range c.events {
		if e := &c.events[i]; e.Kind == Modelled && e.Worker == w.name {
			begun[e.Item] = true
		}
	}
	limit := w.termed + atOnce
	for _, d := range c.deliveries {
		switch {
		case d.Worker != w.name, d.At > w.termed, begun[d.Item], d.end != nil && d.end.At <= limit:
		// Excused: as when it is left behind. And what cannot be read goes to
		// Spanner or to the dead-letter topic without the model.
		case c.troubled(d.At, limit), meets(w.stops, d.At, limit), d.Item.Run != c.facts.End.Run:
		// Left behind; that has been reported.
		case d.end == nil || d.end.At > w.exited:
		default:
			c.report("G5", d.end, "delivery %d had no part in the model, and was %s only %.1fs after SIGTERM",
				d.Delivery, d.end.Kind, (d.end.At - w.termed).Seconds())
		}
	}
}
