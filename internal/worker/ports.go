package worker

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
)

// Delivery is one hand-over of one message to this worker.
type Delivery struct {
	MessageID  string
	Data       []byte
	Attributes map[string]string
	// Attempt counts the deliveries of the message, this one included, as far
	// as the service knows; 0 when it does not say.
	Attempt int
	// Lost is closed when the lease is known to be lost; nil means never.
	Lost <-chan struct{}
}

// Settlement is what becomes of a delivery. There is exactly one for each.
type Settlement int

const (
	// Nack gives the delivery back: the message is delivered again at once.
	// It is the zero value, since giving back is always safe.
	Nack Settlement = iota
	// Ack removes the message: its result is known to be stored.
	Ack
	// Abandon says nothing to the service: the lease is lost, and the message
	// may already be somebody else's.
	Abandon
)

// String names the settlement as logs and traces do.
func (s Settlement) String() string {
	switch s {
	case Ack:
		return "ack"
	case Nack:
		return "nack"
	case Abandon:
		return "abandon"
	default:
		return "unknown"
	}
}

// Source hands out deliveries.
type Source interface {
	// Receive calls handle, in a goroutine of its own, once for each delivery
	// and keeps the delivery's lease while handle runs. What handle returns is
	// what Receive then does with the delivery; nobody else acks or nacks.
	//
	// Once ctx is done no new handle calls are made that could be avoided, and
	// Receive returns nil when every call has returned and every ack and nack
	// has been sent. A non-nil error means that the intake broke; the
	// deliveries held at that time are settled all the same, and Receive may
	// be called again.
	//
	// The context given to handle carries the trace of the message and is not
	// cancelled with ctx.
	Receive(ctx context.Context, handle func(context.Context, *Delivery) Settlement) error
}

// Connection knows whether a Source gets deliveries, as far as can be told.
type Connection interface {
	// Connected is false while the service cannot be reached, so that no
	// deliveries means nothing. It is safe for concurrent use.
	Connected() bool
}

// DeadLetters takes the messages for which no result row can be written.
type DeadLetters interface {
	// Bury records d with the reason. It returns nil only when the record is
	// durable, so that d may be acked.
	Bury(ctx context.Context, d *Delivery, reason string) error
}

// Status of a result.
type Status string

// The two kinds of result.
const (
	StatusOK     Status = "OK"
	StatusFailed Status = "FAILED"
)

// Result is the row of an item.
type Result struct {
	Key    item.Key
	Status Status
	// Output is JSON text, byte for byte as the model gave it; nil unless OK.
	Output []byte
	// Class and Message say why a FAILED item failed.
	Class   Class
	Message string
	// ModelVersion and Worker say who made the result.
	ModelVersion string
	Worker       string
	// InferMillis is the item's share of its batch's model time, in ms.
	InferMillis float64
	// Attempted says that there may be a record in Attempts, which ends with
	// this result.
	Attempted bool
}

// Stored is what the store already knows of an item.
type Stored struct {
	Status       Status
	ModelVersion string
}

// Store keeps results.
//
// Errors are of class ClassStore unless said otherwise. Both methods are safe
// for concurrent use and must return soon after their context is done.
type Store interface {
	// Lookup reads the rows of keys strongly: a commit that returned before
	// the call is seen. Keys without a row are absent from the map.
	Lookup(ctx context.Context, keys []item.Key) (map[item.Key]Stored, error)

	// Commit upserts results and returns one error for each, in order. A nil
	// error says that the row is durable, or, for a FAILED result, that an OK
	// row stands there which it must not replace. ErrRejected says that the
	// store will never take this row because of its content. Any other error
	// leaves the outcome unknown; to commit the same result again is safe.
	// The keys of one call are distinct. The record of an item that was
	// Attempted is removed in the same transaction.
	Commit(ctx context.Context, results []Result) []error
}

// Attempt is the record of an item whose last start has not come back, as far
// as its store knows: the item may kill whoever runs it.
type Attempt struct {
	Key item.Key
	// Started counts the starts alone that have not come back.
	Started int
	// Worker wrote the record; Error is how the last start ended, if that is
	// known.
	Worker string
	Error  string
}

// Attempts keeps the starts of items that are suspected of killing runners or
// workers. Errors are of class ClassStore. The methods are safe for concurrent
// use and return soon after their context is done; the keys of one call are
// distinct.
type Attempts interface {
	// Read returns the records of keys. Keys without one are absent.
	Read(ctx context.Context, keys []item.Key) (map[item.Key]Attempt, error)

	// Record upserts records. With an error the outcome is unknown; to record
	// the same again is safe.
	Record(ctx context.Context, attempts []Attempt) error

	// TakeBack undoes records of this worker: kept are written as they were
	// before, gone are removed. A record that another worker has written since
	// is left alone.
	TakeBack(ctx context.Context, worker string, kept []Attempt, gone []item.Key) error
}

// Cancellations knows the runs whose rest nobody wants any more.
type Cancellations interface {
	// Cancelled returns the IDs of the cancelled runs, as of at most some
	// seconds ago. With an error it returns what it knew before. It is safe for
	// concurrent use; the map is not changed by anyone.
	Cancelled(ctx context.Context) (map[string]bool, error)
}

// Fetcher loads payloads that a message only points at.
type Fetcher interface {
	// Fetch returns the object's bytes. An error of class ClassInvalidInput
	// says that the object will never be readable; ClassTransient, that a
	// later try may succeed.
	Fetch(ctx context.Context, uri string) ([]byte, error)
}

// Info is what a loaded runner says of itself.
type Info struct {
	// ModelVersion has 1 to 128 characters of valid UTF-8: rows hold no more.
	ModelVersion string
	// MaxBatch is the largest batch that Run takes; 0 means any, below 0 is
	// refused.
	MaxBatch int
}

// check reports what makes i unusable, or nil. Rows of such a runner could not
// be stored.
func (i Info) check() error {
	if n := utf8.RuneCountInString(i.ModelVersion); n == 0 || n > maxModelVersion || !utf8.ValidString(i.ModelVersion) {
		return fmt.Errorf("model_version %.80q is not 1 to %d characters of valid UTF-8", i.ModelVersion, maxModelVersion)
	}
	if i.MaxBatch < 0 {
		return fmt.Errorf("the runner says max_batch %d", i.MaxBatch)
	}
	return nil
}

// maxModelVersion is what a row holds, in characters.
const maxModelVersion = 128

// Input is an item in the form that its runner takes.
type Input struct {
	Item item.Item
	// Value is the runner's own: what Prepare made of the item.
	Value any
	// Bytes is the memory that Value holds; batch.max_bytes limits its sum.
	Bytes int64
}

// Output is a runner's answer for one item: a JSON document, or an error.
type Output struct {
	ItemID string
	// Value is JSON text; nil when Err is set.
	Value []byte
	// Err fails this item alone. Its class is ClassItemError unless it says
	// otherwise.
	Err error
}

// Runner runs the model.
type Runner interface {
	// Load makes the model ready, warmed up. It is called before anything
	// else, by one goroutine, and returns promptly when ctx is done. After an
	// error it is called again, unless that is ErrPermanent or of class
	// ClassDevice.
	Load(ctx context.Context) (Info, error)

	// Prepare decodes and validates an item's payload, outside the model, so
	// that the device never waits for it. An error is of class
	// ClassInvalidInput. It is safe for concurrent use.
	Prepare(ctx context.Context, it item.Item) (Input, error)

	// Run puts a batch through the model and returns one output for each
	// input, in any order. The item IDs of one batch are distinct. An error
	// fails the batch as a whole and has a class; without one it counts as
	// ClassBatchError. At most infer.concurrency calls run at once. When ctx
	// is done Run returns as soon as it can, which may be late; one that is
	// still busy a minute after infer.timeout is taken for a broken device.
	Run(ctx context.Context, batch []Input) ([]Output, error)

	// Close stops the model. It may be called while Load or Run is under way, or
	// about to be, which then returns an error; it never crashes the process. It
	// may be called again.
	Close() error
}
