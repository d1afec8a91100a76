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
)

// Rows counts rows in every database. *spanner.Service does.
type Rows interface {
	CountRows(ctx context.Context, table string, by []string, limit int) (groups []spanner.Group, complete bool, err error)
}

// counter remembers the latest count.
type counter struct {
	rows Rows

	counting sync.Mutex // held by the one that counts

	mu     sync.Mutex
	latest count
}

type count struct {
	groups   []spanner.Group
	complete bool
	at       time.Time // when it began: no row is newer
	took     time.Duration
}

// count returns counts that are as new as the cost of counting allows. While one caller counts, the others get
// the counts before.
func (c *counter) count(ctx context.Context) (count, error) {
	if latest, due := c.due(); !due {
		return latest, nil
	}
	if !c.counting.TryLock() {
		latest, _ := c.due()
		return latest, nil
	}
	defer c.counting.Unlock()
	fresh := count{at: time.Now()}
	var err error
	fresh.groups, fresh.complete, err = c.rows.CountRows(ctx, resultsTable, []string{runColumn, statusColumn}, maxGroups)
	if err != nil {
		return count{}, err
	}
	fresh.took = time.Since(fresh.at)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = fresh
	return fresh, nil
}

func (c *counter) due() (latest count, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest, time.Since(c.latest.at) > (restFactor+1)*c.latest.took
}
