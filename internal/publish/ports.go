package publish

import (
	"context"
	"errors"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
)

// State of a run.
type State string

// The states of a run. Published is final once the state is StatePublished.
const (
	StatePublishing State = "PUBLISHING"
	StatePublished  State = "PUBLISHED"
	StateCancelled  State = "CANCELLED"
)

// What stands in the way of a change of a run.
var (
	// ErrNoRun says that no run has the given ID.
	ErrNoRun = errors.New("no such run")
	// ErrCancelled says that the run is CANCELLED, which is for good.
	ErrCancelled = errors.New("the run is cancelled")
	// ErrPublished says that the run is PUBLISHED, which is for good.
	ErrPublished = errors.New("the run is published to its end")
)

// Run is the row of a run.
type Run struct {
	ID      string
	Dataset string
	State   State
	// Published counts the items confirmed by Pub/Sub.
	Published int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Runs keeps the rows of runs. Methods are safe for concurrent use.
type Runs interface {
	// Begin creates the run in StatePublishing with nothing published, or
	// returns the one that is there, unchanged; created says which.
	Begin(ctx context.Context, id, dataset string) (run Run, created bool, err error)
	// Update sets the state of an existing run, and its published count unless
	// a larger one stands there: of two publishers of one run neither takes
	// back what the other has said. It changes nothing and returns ErrNoRun,
	// ErrCancelled, or, when state is StatePublishing, ErrPublished. To call it
	// again with the same values is harmless.
	Update(ctx context.Context, id string, state State, published int64) error
	// Get returns a run, or ErrNoRun.
	Get(ctx context.Context, id string) (Run, error)
}

// Counts is what the rows of one run add up to, at one moment.
type Counts struct {
	OK     int64
	Failed int64
	// FirstResultAt and LastResultAt are zero while there is no row.
	FirstResultAt time.Time
	LastResultAt  time.Time
	// Failures are the FAILED rows by class, the most frequent first.
	Failures []Failure
}

// Failure is the FAILED rows of one class.
type Failure struct {
	Class string
	Items int64
	// Example is the ID of one of them.
	Example string
}

// Row is a result as export prints it.
type Row struct {
	ItemID string
	Status string
	// Output is JSON text, byte for byte as the model gave it; empty for
	// FAILED rows, as ErrorClass and ErrorMessage are for OK rows.
	Output       string
	ErrorClass   string
	ErrorMessage string
	ModelVersion string
	Worker       string
	CommittedAt  time.Time
}

// Results reads the rows of one run. Methods are safe for concurrent use.
type Results interface {
	// Count counts the rows of the run.
	Count(ctx context.Context, runID string) (Counts, error)
	// Each calls visit for every row of the run, of one status unless status
	// is empty, in the order of the primary key, and stops at visit's error,
	// which it returns as it is. Memory does not grow with the number of rows.
	// It reads a part of the run after the other, each as it is at that moment.
	Each(ctx context.Context, runID, status string, visit func(Row) error) error
	// Statuses returns the status of each item of keys that has a row.
	Statuses(ctx context.Context, keys []item.Key) (map[item.Key]string, error)
	// Rows returns the row of each item of keys that has one.
	Rows(ctx context.Context, keys []item.Key) (map[item.Key]Row, error)
}
