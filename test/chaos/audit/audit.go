package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Check returns every violation that the events show, the earliest first.
func Check(events []Event, facts Facts) []Violation {
	c := &checker{events: events, facts: facts, index: newIndex(events)}
	for _, check := range []func(){
		c.acks, c.settlements, c.leases, c.rows, c.verdicts, c.model, c.twice, c.exits, c.drains, c.end,
	} {
		check()
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return c.found
}

type checker struct {
	events []Event
	facts  Facts
	*index
	found []Violation
}

func (c *checker) report(guarantee string, e *Event, format string, args ...any) {
	c.found = append(c.found, Violation{
		Guarantee: guarantee, At: e.At, Item: e.Item, Worker: e.Worker, Text: fmt.Sprintf(format, args...),
	})
}

// index is the events in the order in which questions are asked.
type index struct {
	deliveries map[uint64]*delivery
	workers    map[string]*life
	// troubles are the times in which calls of Pub/Sub may have broken. Spanner's
	// faults excuse nothing.
	troubles []span
	calm     time.Duration // 0 when the run was never calm
	last     time.Duration
}

// delivery is one hand-over of a message of the workers' subscription.
type delivery struct {
	Event     // of Kind Delivered
	seq   int // its place among the events
	// end is the event that ended it: Acked, Nacked, Expired; nil while none
	// has.
	end *Event
}

// life is one worker process.
type life struct {
	name    string
	started time.Duration
	// exited is when it ended; open while it runs.
	exited time.Duration
	code   int
	// termed and killed are when the signal was sent; open: never.
	termed, killed time.Duration
	stops          []span
}

// open is the end of what has not ended.
const open = time.Duration(1<<63 - 1)

// span is a stretch of time.
type span struct{ from, to time.Duration }

func (s span) meets(o span) bool { return s.from <= o.to && o.from <= s.to }

func meets(spans []span, from, to time.Duration) bool {
	return slices.ContainsFunc(spans, span{from, to}.meets)
}

// lingering is how long after its end a fault can be felt: a call that hangs in
// it lasts until its caller gives up, after 3s in package pull.
const lingering = 3 * time.Second

func newIndex(events []Event) *index {
	x := &index{deliveries: map[uint64]*delivery{}, workers: map[string]*life{}}
	faults := map[int]Event{}
	for i := range events {
		e := &events[i]
		x.last = max(x.last, e.At)
		switch e.Kind {
		case Delivered, Acked, Nacked, Expired, DeadLettered, Dropped:
			x.message(e, i)
		case Started, Signalled, Exited:
			x.process(e)
		case FaultBegan:
			faults[e.Fault] = *e
		case FaultEnded:
			began := faults[e.Fault]
			delete(faults, e.Fault)
			x.trouble(began, e.At+lingering)
		case Calm:
			x.calm = e.At
		}
	}
	for _, f := range faults {
		x.trouble(f, open)
	}
	return x
}

func (x *index) message(e *Event, seq int) {
	switch {
	case e.Dead:
	case e.Kind == Delivered:
		x.deliveries[e.Delivery] = &delivery{Event: *e, seq: seq}
	default:
		if d := x.deliveries[e.Delivery]; d != nil && d.end == nil {
			d.end = e
		}
	}
}

func (x *index) process(e *Event) {
	w := x.workers[e.Worker]
	if e.Kind == Started || w == nil {
		w = &life{name: e.Worker, started: e.At, exited: open, termed: open, killed: open}
		x.workers[e.Worker] = w
	}
	switch {
	case e.Kind == Exited:
		w.exited, w.code = e.At, e.Code
	case e.Signal == "KILL":
		w.killed = min(w.killed, e.At)
	case e.Signal == "TERM":
		w.termed = min(w.termed, e.At)
	case e.Signal == "STOP":
		w.stops = append(w.stops, span{e.At, open})
	case e.Signal == "CONT" && len(w.stops) > 0:
		w.stops[len(w.stops)-1].to = e.At
	}
}

// stopped reports whether the worker stood still for a part of that time.
func (x *index) stopped(worker string, from, to time.Duration) bool {
	w := x.workers[worker]
	return w != nil && meets(w.stops, from, to)
}

func (x *index) trouble(began Event, to time.Duration) {
	if began.Service == PubSub {
		x.troubles = append(x.troubles, span{began.At, to})
	}
}

// troubled reports whether calls of Pub/Sub may have broken in that time.
func (x *index) troubled(from, to time.Duration) bool { return meets(x.troubles, from, to) }
