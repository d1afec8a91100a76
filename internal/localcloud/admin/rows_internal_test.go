package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner"
)

// slowRows takes a second to count.
type slowRows struct {
	calls int
	err   error
}

func (r *slowRows) CountRows(context.Context, string, []string, int) ([]spanner.Group, bool, error) {
	r.calls++
	<-time.After(time.Second)
	return []spanner.Group{{Rows: int64(r.calls)}}, true, r.err
}

// However often somebody asks, counting takes a twentieth of the time at most.
func TestCountingLeavesTheMachineToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &slowRows{}
		c := &counter{rows: rows}
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

// While one counts, others get what was known before, and do not wait.
func TestCountingHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{rows: &slowRows{}}
		go func() { _, _ = c.count(t.Context()) }()
		synctest.Wait() // it counts
		start := time.Now()
		got, err := c.count(t.Context())
		if err != nil || len(got.groups) != 0 || time.Since(start) != 0 {
			t.Errorf("count = %+v, %v after %v", got, err, time.Since(start))
		}
		<-time.After(2 * time.Second)
		if got, _ := c.count(t.Context()); len(got.groups) != 1 {
			t.Errorf("count afterwards = %+v", got)
		}
	})
}

func TestFailedCountIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		c := &counter{rows: &slowRows{err: failure}}
		if _, err := c.count(t.Context()); !errors.Is(err, failure) {
			t.Errorf("count = %v, want %v", err, failure)
		}
	})
}
