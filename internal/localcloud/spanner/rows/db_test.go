package rows

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// setup returns a database with one table of a key and a value.
func setup(t *testing.T) (*DB, *Table) {
	t.Helper()
	db := New(nil)
	if err := db.ApplyDDL([]string{"CREATE TABLE T (K STRING(MAX) NOT NULL, V INT64) PRIMARY KEY (K)"}); err != nil {
		t.Fatal(err)
	}
	table, err := db.Table("t")
	if err != nil {
		t.Fatal(err)
	}
	return db, table
}

func put(t *testing.T, db *DB, table *Table, key string, value int64) time.Time {
	t.Helper()
	committed, err := db.Commit(Commit{Mutations: []Mutation{{Op: InsertOrUpdate, Table: table, Columns: []int{0, 1}, Rows: [][]any{{key, value}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return committed.At
}

// advance lets the time of the bubble pass.
func advance(d time.Duration) { <-time.After(d) }

func remove(t *testing.T, db *DB, table *Table, key string) {
	t.Helper()
	if _, err := db.Commit(Commit{Mutations: []Mutation{{Op: Delete, Table: table, Keys: []string{table.EncodePrefix([]any{key})}}}}); err != nil {
		t.Fatal(err)
	}
}

func scan(t *testing.T, db *DB, table *Table, at int64) map[string]int64 {
	t.Helper()
	got := map[string]int64{}
	if err := db.Scan(t.Context(), table, []Span{All()}, at, func(row []any) (bool, error) {
		got[row[0].(string)] = row[1].(int64)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// Old versions stay readable for the retention and are gone soon after it, deleted rows included.
func TestOldVersionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, table := setup(t)
		first := put(t, db, table, "a", 1)
		advance(time.Second)
		put(t, db, table, "a", 2)
		put(t, db, table, "b", 1)
		remove(t, db, table, "b")

		if diff := cmp.Diff(map[string]int64{"a": 1}, scan(t, db, table, first.UnixMicro())); diff != "" {
			t.Errorf("rows at the first commit (-want +got):\n%s", diff)
		}
		if err := db.AwaitTimestamp(t.Context(), first.UnixMicro()); err != nil {
			t.Errorf("a second later: %v", err)
		}
		advance(versionRetention)
		if err := db.AwaitTimestamp(t.Context(), first.UnixMicro()); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("after the retention: %v, want FailedPrecondition", err)
		}
		advance(time.Second)
		put(t, db, table, "c", 3) // clears up
		if n := table.data.tree.Len(); n != 2 {
			t.Errorf("%d keys are kept, want a and c", n)
		}
		if v, _ := table.data.tree.Get(table.EncodePrefix([]any{"a"})); v.older != nil {
			t.Error("the overwritten version of a is kept")
		}
		if len(db.retired) != 0 {
			t.Errorf("%d versions are still marked", len(db.retired))
		}
	})
}

// A row that is deleted and written again while its deletion waits to be forgotten must survive that.
func TestRewrittenRowOutlivesItsDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, table := setup(t)
		put(t, db, table, "a", 1)
		remove(t, db, table, "a")
		advance(time.Minute)
		put(t, db, table, "a", 2)
		advance(2 * versionRetention)
		put(t, db, table, "b", 1)
		if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1}, scan(t, db, table, db.StrongTimestamp())); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func TestReadInTheFutureWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := setup(t)
		start := time.Now()
		if err := db.AwaitTimestamp(t.Context(), start.Add(10*time.Second).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("waited %v, want 10s", waited)
		}
	})
}

// A scan that is longer than a chunk sees one moment, whatever is committed while it runs.
func TestScanSeesOneMoment(t *testing.T) {
	db, table := setup(t)
	const n = 3 * scanChunk
	for i := range n {
		put(t, db, table, fmt.Sprintf("%06d", i), 1)
	}
	at := db.StrongTimestamp()
	seen := 0
	if err := db.Scan(t.Context(), table, []Span{All()}, at, func(row []any) (bool, error) {
		if row[1] != int64(1) {
			t.Errorf("row %v was written after the scan began", row)
		}
		if seen++; seen == 10 {
			for i := range n {
				put(t, db, table, fmt.Sprintf("%06d", i), 2)
			}
			put(t, db, table, fmt.Sprintf("%06d-new", n-1), 2)
			remove(t, db, table, fmt.Sprintf("%06d", n-2))
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen != n {
		t.Errorf("scan saw %d rows, want %d", seen, n)
	}
}

func TestCommitTimestampsGrow(t *testing.T) {
	db, table := setup(t)
	last := time.Time{}
	for i := range 1000 {
		at := put(t, db, table, "a", int64(i))
		if !at.After(last) {
			t.Fatalf("commit %d at %v, the one before at %v", i, at, last)
		}
		last = at
	}
}
