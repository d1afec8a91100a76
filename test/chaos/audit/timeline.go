package audit

import (
	"fmt"
	"strings"
)

// Timeline tells what happened to an item, and to the workers that held it, one
// line an event. With an empty item it tells what happened to the worker; with
// neither, only the disturbances.
func Timeline(events []Event, item Key, worker string) string {
	involved := map[string]bool{worker: worker != ""}
	mine := map[uint64]bool{}
	for i := range events {
		if e := &events[i]; item != (Key{}) && e.Item == item && e.Worker != "" {
			involved[e.Worker] = true
			mine[e.Delivery] = true
		}
	}
	var b strings.Builder
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case FaultBegan, FaultEnded, PublisherKilled, Calm:
		case Started, Signalled, Exited, RunnerKilled:
			if !involved[e.Worker] {
				continue
			}
		case AckedLate, NackedLate:
			if !mine[e.Delivery] {
				continue
			}
		default:
			if item == (Key{}) || e.Item != item {
				continue
			}
		}
		e.write(&b)
	}
	return b.String()
}

// Everything is the timeline of the whole run.
func Everything(events []Event) string {
	var b strings.Builder
	for i := range events {
		e := &events[i]
		if e.Item != (Key{}) {
			fmt.Fprintf(&b, "%-16s", e.Item)
		} else {
			fmt.Fprintf(&b, "%-16s", e.Foreign)
		}
		e.write(&b)
	}
	return b.String()
}

func (e *Event) write(b *strings.Builder) {
	fmt.Fprintf(b, "%9.3fs  %-14s %s\n", e.At.Seconds(), e.Kind, e.describe())
}

// describe is what there is to say beside time and kind.
func (e *Event) describe() string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if e.Worker != "" {
		add("%s", e.Worker)
	}
	if e.Dead {
		add("dead-letter topic")
	}
	if e.Message != 0 {
		add("message %d", e.Message)
	}
	if e.Delivery != 0 && e.Kind != Published {
		add("delivery %d", e.Delivery)
	}
	switch e.Kind {
	case Delivered:
		add("attempt %d", e.Attempt)
	case Committed:
		add("%s %s%s by %s", e.Row.Status, e.Row.Output, e.Row.Class, e.Row.Worker)
		if e.Row.Message != "" {
			add("(%s)", e.Row.Message)
		}
	case Signalled:
		add("SIG%s", e.Signal)
	case Exited:
		add("code %d", e.Code)
	case FaultBegan, FaultEnded:
		add("%d %s", e.Fault, e.Service)
	}
	if e.Reason != "" {
		add("%q", e.Reason)
	}
	if e.Note != "" {
		add("%s", e.Note)
	}
	return strings.Join(words, ", ")
}
