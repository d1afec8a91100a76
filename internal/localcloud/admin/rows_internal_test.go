package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner"
)

// slowRows takes its time to count.
type slowRows struct {
	took  time.Duration
	calls int
	err   error
}

func (r *slowRows) CountRows(context.Context, string, []string, int) ([]spanner.Group, bool, error) {
	r.calls++
	<-time.After(r.took)
	return []spanner.Group{{Rows: int64(r.calls)}}, true, r.err
}

// runCounter runs a counter in a bubble of fake time.
func runCounter(t *testing.T, rows Rows, test func(t *testing.T, c *counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(rows)
		go c.run(t.Context())
		test(t, c)
	})
}

// However often somebody asks, counting takes a twentieth of the time at most.
func TestCountingLeavesTheMachineToOthers(t *testing.T) {
	rows := &slowRows{took: time.Second}
	runCounter(t, rows, func(t *testing.T, c *counter) {
		start := time.Now()
		for time.Since(start) < 100*time.Second {
			if _, err := c.count(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if rows.calls < 4 || rows.calls > 5 {
			t.Errorf("counted %d times in 100 s, want every 21 s", rows.calls)
		}
	})
}

// A long count holds up nobody: those who ask get what was known before.
func TestLongCountHoldsUpNobody(t *testing.T) {
	runCounter(t, &slowRows{took: time.Minute}, func(t *testing.T, c *counter) {
		start := time.Now()
		for range 3 {
			if got, err := c.count(t.Context()); err != nil || len(got.groups) != 0 || !got.at.IsZero() {
				t.Errorf("count = %+v, %v", got, err)
			}
		}
		if took := time.Since(start); took != 3*patience {
			t.Errorf("three questions took %v", took)
		}
		<-time.After(time.Minute)
		if got, _ := c.count(t.Context()); len(got.groups) != 1 || !got.at.Equal(start) {
			t.Errorf("count afterwards = %+v", got)
		}
	})
}

func TestShortCountIsWaitedFor(t *testing.T) {
	rows := &slowRows{took: time.Millisecond}
	runCounter(t, rows, func(t *testing.T, c *counter) {
		for i := range 10 {
			if got, err := c.count(t.Context()); err != nil || got.groups[0].Rows != int64(i+1) {
				t.Errorf("count %d = %+v, %v", i+1, got, err)
			}
			<-time.After(time.Second)
		}
	})
}

func TestFailedCountIsReported(t *testing.T) {
	failure := errors.New("no")
	runCounter(t, &slowRows{err: failure}, func(t *testing.T, c *counter) {
		if _, err := c.count(t.Context()); !errors.Is(err, failure) {
			t.Errorf("count = %v, want %v", err, failure)
		}
	})
}
