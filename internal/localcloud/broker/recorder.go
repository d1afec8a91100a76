package broker

import "time"

// EventKind says what happened to a message in a subscription.
type EventKind uint8

// The kinds of events, in the order in which a message may see them.
const (
	Published EventKind = iota + 1
	Delivered
	Extended
	Acked
	Nacked
	Expired
	DeadLettered
	Dropped  // older than the retention, or its subscription was detached
	Returned // to be delivered again: an earlier message of its ordering key came back, or a seek
	// AckedLate and NackedLate are calls for a delivery that was over: settled
	// before, or its lease had run out. They do nothing.
	AckedLate
	NackedLate
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{"none", "published", "delivered", "extended", "acked", "nacked", "expired", "dead-lettered", "dropped", "returned", "acked late", "nacked late"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Event is one step in the life of a message in one subscription.
type Event struct {
	Kind         EventKind
	Time         time.Time
	Subscription string
	// Message is read only. It is nil, and Consumer and Attempt are not set, with
	// AckedLate and NackedLate: the broker has forgotten the delivery.
	Message  *Message
	AckID    AckID  // the latest delivery; 0 before the first
	Consumer string // who holds or held the message; empty if nobody did
	Attempt  int    // delivery attempt, from 1
}

// Recorder sees every event. Record runs under the broker's lock: it must be
// quick, must not block, and must not call the broker.
type Recorder interface {
	Record(e Event)
}

// NoRecorder drops every event.
type NoRecorder struct{}

var _ Recorder = NoRecorder{}

// Record does nothing.
func (NoRecorder) Record(Event) {}
