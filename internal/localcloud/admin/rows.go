package admin

import (
	"context"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner"
)

// The table whose rows are counted, and by what.
const (
	resultsTable = "Results"
	runColumn    = "RunId"
	statusColumn = "Status"
)

const (
	// maxGroups bounds the answer and its memory, whatever the rows hold.
	maxGroups = 2000
	// restFactor is how many times as long as a count took is waited before the next. Counting reads every row,
	// and must not take the machine from those who write them: at 20 it takes 5 % of one core at most.
	restFactor = 20
	// patience is how long a question waits for counts that are new. What takes longer comes with a later one.
	patience = 200 * time.Millisecond
)

// Rows counts rows in every database. *spanner.Service does.
type Rows interface {
	CountRows(ctx context.Context, table string, by []string, limit int) (groups []spanner.Group, complete bool, err error)
}

// counter counts when somebody asks, and remembers the latest count.
type counter struct {
	rows   Rows
	wanted chan struct{} // somebody asked

	mu       sync.Mutex
	latest   count
	counting chan struct{} // closed when the count that is due has been made; nil while none is
}

type count struct {
	groups   []spanner.Group
	complete bool
	at       time.Time // when it began: no row is newer; zero before the first
	took     time.Duration
	err      error
}

func newCounter(rows Rows) *counter {
	return &counter{rows: rows, wanted: make(chan struct{}, 1)}
}

// run counts until ctx is done.
func (c *counter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wanted:
		}
		fresh := count{at: time.Now()}
		fresh.groups, fresh.complete, fresh.err = c.rows.CountRows(ctx, resultsTable, []string{runColumn, statusColumn}, maxGroups)
		fresh.took = time.Since(fresh.at)
		c.mu.Lock()
		c.latest = fresh
		close(c.counting)
		c.counting = nil
		c.mu.Unlock()
	}
}

// count returns counts that are as new as the cost of counting allows.
func (c *counter) count(ctx context.Context) (count, error) {
	if counting := c.ask(); counting != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-counting:
		case <-timer.C:
		case <-ctx.Done():
			return count{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest, c.latest.err
}

// ask has the rows counted if that is due, and returns a channel that is closed once they are.
func (c *counter) ask() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting == nil && time.Since(c.latest.at) > (restFactor+1)*c.latest.took {
		c.counting = make(chan struct{})
		c.wanted <- struct{}{} // never blocks: there is room for the one count that is due
	}
	return c.counting
}
