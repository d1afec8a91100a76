package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/spanner"
	"golang.org/x/sync/singleflight"

	"github.com/spotbatch/spotbatch/internal/publish"
)

// How old an answer about cancelled runs may be, and how long a read of them
// may take. Together they are well below the ten seconds in which workers are
// to notice that a run was cancelled.
const (
	cancelledAge     = 3 * time.Second
	cancelledTimeout = 3 * time.Second
)

// Cancellations knows which runs are cancelled. It is safe for concurrent use.
type Cancellations struct {
	read func(context.Context) (map[string]bool, error)
	now  func() time.Time
	// reads makes one read of callers that come at the same time.
	reads singleflight.Group

	mu   sync.Mutex
	runs map[string]bool // guarded by mu; the map itself never changes
	at   time.Time       // guarded by mu; when a read of runs was last begun
}

// Cancellations returns what tells cancelled runs from others.
func (d *Database) Cancellations() *Cancellations {
	return &Cancellations{read: d.cancelledRuns, now: time.Now}
}

// Cancelled returns the IDs of the runs that are cancelled, as of some seconds
// ago; the map belongs to everyone and must not be changed. It reads at most
// once in three seconds, whatever the number of callers. When a read fails it
// returns what was known before, along with the error.
func (c *Cancellations) Cancelled(ctx context.Context) (map[string]bool, error) {
	if runs, fresh := c.known(); fresh {
		return runs, nil
	}
	read := c.reads.DoChan("", func() (any, error) {
		if _, fresh := c.known(); fresh { // read while this caller came
			return nil, nil
		}
		// The answer is everybody's: one caller's stop is no reason to give up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelledTimeout)
		defer cancel()
		begun := c.now()
		runs, err := c.read(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.at = begun
		if err == nil {
			c.runs = runs
		}
		return nil, err
	})
	select {
	case <-ctx.Done():
		runs, _ := c.known()
		return runs, context.Cause(ctx)
	case done := <-read:
		runs, _ := c.known()
		return runs, done.Err
	}
}

// known returns what the last read has shown, and whether that is recent.
func (c *Cancellations) known() (runs map[string]bool, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs, !c.at.IsZero() && c.now().Sub(c.at) < cancelledAge
}

// cancelledRuns reads the IDs of all cancelled runs. The table has a row a run.
func (d *Database) cancelledRuns(ctx context.Context) (map[string]bool, error) {
	runs := make(map[string]bool)
	statement := spanner.Statement{
		SQL:    "SELECT RunId FROM Runs WHERE State = @state",
		Params: map[string]any{"state": string(publish.StateCancelled)},
	}
	err := d.client.Single().Query(ctx, statement).Do(func(row *spanner.Row) error {
		var id string
		err := row.Columns(&id)
		runs[id] = true
		return err
	})
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s: %w", cancelledTimeout, err)
		}
		return nil, d.explain("read cancelled runs", err)
	}
	return runs, nil
}
