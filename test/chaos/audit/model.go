package audit

import "time"

// reported is how long after its decision a start of the model may be reported:
// the batch has to get to the child process, on a machine that is busy. Only a
// drain's nack can come in between; an ack follows the end of the model's run.
const reported = time.Second

// model is G4: no start of the model by a delivery that came when the item had
// its OK row. A start is the fault of none of the worker's deliveries that are
// over; when all others came after the row, one of them has caused it.
//
// Excused: a start while a delivery from before the row is held, since the row
// may be another worker's; that is at-least-once delivery, and not avoidable.
func (c *checker) model() {
	stored := map[Key]int{} // the first OK row's place among the events
	held := map[Key][]*delivery{}
	for i := range c.events {
		switch e := &c.events[i]; {
		case e.Kind == Committed && e.Row.Status == "OK" && e.Row.ModelVersion == c.facts.ModelVersion:
			if _, again := stored[e.Item]; !again {
				stored[e.Item] = i
			}
		case e.Kind == Delivered && !e.Dead:
			held[e.Item] = append(held[e.Item], c.deliveries[e.Delivery])
		case e.Kind == Modelled:
			if row, found := stored[e.Item]; found {
				c.start(e, row, held[e.Item])
			}
		}
	}
}

func (c *checker) start(e *Event, row int, deliveries []*delivery) {
	var after *delivery
	for _, d := range deliveries {
		switch {
		case d.Worker != e.Worker:
		case d.end != nil && d.end.Kind == Acked && d.end.At < e.At:
		case d.end != nil && d.end.Kind == Nacked && d.end.At < e.At-reported:
		case d.seq < row:
			return
		default:
			after = d
		}
	}
	if after != nil {
		c.report("G4", e, "the model began on an item whose OK row was committed at %.3fs, before delivery %d came at %.3fs",
			c.events[row].At.Seconds(), after.Delivery, after.At.Seconds())
	}
}
