package audit

import (
	"fmt"
	"time"
)

// Kind says what happened.
type Kind string

// What Pub/Sub saw of a message.
const (
	Published    Kind = "published"
	Delivered    Kind = "delivered"
	Extended     Kind = "extended"
	Acked        Kind = "acked"
	Nacked       Kind = "nacked"
	Expired      Kind = "expired"
	DeadLettered Kind = "dead-lettered"
	Dropped      Kind = "dropped"
	AckedLate    Kind = "acked late"  // an ack for a delivery that was over
	NackedLate   Kind = "nacked late" // a nack for a delivery that was over
)

// What else was seen.
const (
	Committed       Kind = "committed"     // Spanner took a row of the item
	Suspected       Kind = "suspected"     // Spanner took a record of Attempts of the item
	Modelled        Kind = "model"         // the model began to work on the item
	Answered        Kind = "answered"      // the model gave a healthy result for the item
	Started         Kind = "started"       // a worker process
	Signalled       Kind = "signal"        // to a worker process
	RunnerKilled    Kind = "runner killed" // the child process of a worker
	PublisherKilled Kind = "publisher killed"
	Exited          Kind = "exited" // a worker process
	FaultBegan      Kind = "fault begins"
	FaultEnded      Kind = "fault ends"
	Calm            Kind = "calm" // no disturbance from here on
)

// The services that faults strike.
const (
	PubSub  = "Pub/Sub"
	Spanner = "Spanner"
)

// Key names an item.
type Key struct{ Run, Item string }

// String returns run and item.
func (k Key) String() string { return k.Run + "/" + k.Item }

// Row is what a commit wrote of an item.
type Row struct {
	Shard        int64
	Status       string
	Output       string
	Class        string
	Message      string
	ModelVersion string
	Worker       string
}

// Event is one thing that happened. Events stand in the order in which they
// took effect; only Modelled and Answered, which the model itself reports, are put
// among the others by their time.
type Event struct {
	At   time.Duration // since the run began
	Kind Kind
	// Item is empty with messages that name none, and with what is not about
	// one item.
	Item Key
	// Worker is the life of a worker process: a name that no other has.
	Worker string

	// Of messages. Delivery is unique; late settlements have nothing else.
	Dead     bool // in the subscription of the dead-letter topic
	Message  uint64
	Delivery uint64
	Attempt  int
	Foreign  string // the name of a planted message that is no item
	Reason   string // on the dead-letter topic: why it is there

	Row    Row    // Committed
	Signal string // Signalled: KILL, TERM, STOP, CONT
	Code   int    // Exited: -1 means by a signal
	Fault  int    // FaultBegan, FaultEnded: its number
	// Service is whom a fault strikes.
	Service string
	Note    string // for readers
}

// Want is what must become of an item.
type Want struct {
	Status string // OK or FAILED; empty: either will do
	Output string // of OK
	Class  string // of FAILED
}

// Facts are what is known of a run beside its events.
type Facts struct {
	// Lease is the length of a lease, Drain the time from SIGTERM to exit.
	Lease, Drain time.Duration
	// Items are all items with what must become of them.
	Items map[Key]Want
	// Foreign are the names of the planted messages that are no item.
	Foreign      []string
	ModelVersion string
	// Finished says that the run came to its end by itself; else Unfinished
	// says how it stood.
	Finished   bool
	Unfinished string
	End        End
}

// End is what the publisher's commands said at the end of the run, and how the
// workers' subscription stood. It is checked only with Finished.
type End struct {
	Run        string
	Status     Status
	VerifyCode int
	VerifyText string
	// Exported are the rows that `publisher export` printed.
	Exported map[Key]Row
	// Published messages of the subscription, of which the others are parts.
	Published, Acked, DeadLettered, Left int
}

// Status is what `publisher status -o json` says.
type Status struct {
	State                              string
	Published, OK, Failed, Outstanding int64
	Complete                           bool
}

// Violation is one broken guarantee.
type Violation struct {
	Guarantee string // G1 to G8
	At        time.Duration
	// Item and Worker say where to look; either may be empty.
	Item   Key
	Worker string
	Text   string
}

// String is one line.
func (v Violation) String() string {
	line := v.Guarantee
	if v.Item != (Key{}) {
		line += " " + v.Item.String()
	}
	if v.Worker != "" {
		line += " " + v.Worker
	}
	return fmt.Sprintf("%s at %.3fs: %s", line, v.At.Seconds(), v.Text)
}
