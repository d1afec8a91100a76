package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// table stands for Spanner: faults may keep the write and still report an
// error.
type table struct {
	stored map[string]int
	calls  [][]string
	// fault is asked before each commit; applied says whether the rows are
	// kept although err is returned.
	fault func(call int, rows []row) (applied bool, err error)
}

func (t *table) apply(_ context.Context, rows []row) error {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.result.Key.ItemID
	}
	t.calls = append(t.calls, ids)
	var applied bool
	var err error
	if t.fault != nil {
		applied, err = t.fault(len(t.calls), rows)
	}
	if err == nil || applied {
		for _, id := range ids {
			t.stored[id]++
		}
	}
	return err
}

func rowsOf(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{index: i, result: okResult(fmt.Sprintf("i%d", i))}
	}
	return rows
}

func okResult(id string) worker.Result {
	return worker.Result{
		Key: item.Key{RunID: "r", ItemID: id}, Status: worker.StatusOK, Output: []byte(`{}`),
		ModelVersion: "m1", Worker: "w1",
	}
}

func TestWriteCutsUntilTheBadRowIsAlone(t *testing.T) {
	for bad := range 8 {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			tab := &table{stored: map[string]int{}}
			tab.fault = func(_ int, rows []row) (bool, error) {
				for _, r := range rows {
					if r.index == bad {
						return false, status.Error(codes.FailedPrecondition, "value too large")
					}
				}
				return false, nil
			}
			errs := make([]error, 8)
			applyFunc(tab.apply).write(t.Context(), rowsOf(8), errs)
			for i, err := range errs {
				if got, want := errors.Is(err, worker.ErrRejected), i == bad; got != want {
					t.Errorf("row %d: rejected is %t, want %t (%v)", i, got, want, err)
				}
				if i != bad && (err != nil || tab.stored[fmt.Sprintf("i%d", i)] != 1) {
					t.Errorf("row %d: error %v, stored %d times; want nil and once", i, err, tab.stored[fmt.Sprintf("i%d", i)])
				}
			}
		})
	}
}

func TestWriteRepeatsAnUnknownOutcome(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Unknown, codes.Internal} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s applied=%t", code, applied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tab := &table{stored: map[string]int{}}
					tab.fault = func(call int, _ []row) (bool, error) {
						if call <= 3 {
							return applied, status.Error(code, "reply lost")
						}
						return false, nil
					}
					errs := make([]error, 2)
					applyFunc(tab.apply).write(t.Context(), rowsOf(2), errs)
					if err := errors.Join(errs...); err != nil {
						t.Errorf("write: %v", err)
					}
					if got := len(tab.calls); got != 4 {
						t.Errorf("commits: %d, want 4", got)
					}
				})
			})
		}
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := &table{stored: map[string]int{}}
		tab.fault = func(int, []row) (bool, error) { return false, status.Error(codes.Aborted, "busy") }
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		errs := make([]error, 1)
		applyFunc(tab.apply).write(ctx, rowsOf(1), errs)
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("write took %s, want 20s", took)
		}
		if got := worker.ClassOf(errs[0], ""); got != worker.ClassStore {
			t.Errorf("class %q, want %q (%v)", got, worker.ClassStore, errs[0])
		}
	})
}

func TestWriteGivesAHungAttemptASecondTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		apply := applyFunc(func(ctx context.Context, _ []row) error {
			if calls++; calls == 1 {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		errs := make([]error, 1)
		apply.write(ctx, rowsOf(1), errs)
		if errs[0] != nil || calls != 2 {
			t.Errorf("error %v after %d commits, want nil after 2", errs[0], calls)
		}
	})
}

func TestWriteDoesNotRepeatWhatCannotHelp(t *testing.T) {
	for _, code := range []codes.Code{codes.NotFound, codes.PermissionDenied, codes.Unauthenticated} {
		tab := &table{stored: map[string]int{}}
		tab.fault = func(int, []row) (bool, error) { return false, status.Error(code, "no") }
		errs := make([]error, 3)
		applyFunc(tab.apply).write(t.Context(), rowsOf(3), errs)
		if len(tab.calls) != 1 {
			t.Errorf("%s: %d commits, want 1", code, len(tab.calls))
		}
		for i, err := range errs {
			if errors.Is(err, worker.ErrRejected) || worker.ClassOf(err, "") != worker.ClassStore {
				t.Errorf("%s: row %d: %v, want an error of class store", code, i, err)
			}
		}
	}
}

func TestWriteStaysUnderTheLimits(t *testing.T) {
	big := rowsOf(12)
	for i := range big {
		big[i].result.Output = []byte(strings.Repeat("x", 9<<20))
	}
	tests := []struct {
		name string
		rows []row
	}{
		{"many rows", rowsOf(20_000)},
		{"big rows", big},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sent := 0
			apply := applyFunc(func(_ context.Context, rows []row) error {
				bytes := 0
				for _, r := range rows {
					bytes += len(r.result.Output)
				}
				if n := len(rows) * len(resultColumns); n > 80_000 || bytes > 100_000_000 {
					t.Errorf("commit of %d mutations and %d bytes", n, bytes)
				}
				sent += len(rows)
				return nil
			})
			apply.write(t.Context(), test.rows, make([]error, len(test.rows)))
			if sent != len(test.rows) {
				t.Errorf("%d rows sent, want %d", sent, len(test.rows))
			}
		})
	}
}

func TestCommitRefusesWhatDoesNotFitBeforeItIsSent(t *testing.T) {
	tests := []struct {
		name   string
		change func(*worker.Result)
		want   string
	}{
		{"cell over 10 MiB", func(r *worker.Result) { r.Output = []byte(strings.Repeat("x", 11<<20)) }, "10485760"},
		{"too many characters", func(r *worker.Result) { r.Output = []byte(strings.Repeat("x", 2_621_441)) }, "2621441 characters"},
		{"bad UTF-8", func(r *worker.Result) { r.Output = []byte("\"\xff\"") }, "not valid UTF-8"},
		{"model version", func(r *worker.Result) { r.ModelVersion = strings.Repeat("v", 129) }, "model_version"},
		{"item ID", func(r *worker.Result) { r.Key.ItemID = "" }, "item_id"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tab := &table{stored: map[string]int{}}
			store := &Store{overwrite: tab.apply, keepOK: tab.apply}
			bad := okResult("bad")
			test.change(&bad)
			errs := store.Commit(t.Context(), []worker.Result{okResult("a"), bad, okResult("b")})
			if errs[0] != nil || errs[2] != nil || tab.stored["a"] != 1 || tab.stored["b"] != 1 {
				t.Errorf("neighbours: errors %v and %v, stored %v", errs[0], errs[2], tab.stored)
			}
			if !errors.Is(errs[1], worker.ErrRejected) || !strings.Contains(errs[1].Error(), test.want) {
				t.Errorf("error %v, want ErrRejected with %q", errs[1], test.want)
			}
			if len(tab.calls) != 1 {
				t.Errorf("%d commits, want 1", len(tab.calls))
			}
		})
	}
}

func TestCommitSendsFailedRowsTheOtherWay(t *testing.T) {
	over, keep := &table{stored: map[string]int{}}, &table{stored: map[string]int{}}
	store := &Store{overwrite: over.apply, keepOK: keep.apply}
	failed := okResult("f")
	failed.Status, failed.Output, failed.Class, failed.Message = worker.StatusFailed, nil, worker.ClassItemError, "no"
	errs := store.Commit(t.Context(), []worker.Result{failed, okResult("a")})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if over.stored["a"] != 1 || over.stored["f"] != 0 || keep.stored["f"] != 1 || keep.stored["a"] != 0 {
		t.Errorf("blind %v, guarded %v", over.stored, keep.stored)
	}
}

func TestClip(t *testing.T) {
	tests := []struct {
		name, in, want string
		limit          int
	}{
		{"short", "abc", "abc", 3},
		{"cut", "abcd", "abc", 3},
		{"cut at a rune", "äöü€", "äöü", 3},
		{"bad bytes", "a\xffb", "a\uFFFDb", 3},
		{"four-byte runes", "😀😀😀😀", "😀😀😀", 3},
		{"half a rune at the end", "ab\xe2\x82", "ab\uFFFD", 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := clip(test.in, test.limit); got != test.want {
				t.Errorf("clip(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
			}
		})
	}
}

func TestShardIsStable(t *testing.T) {
	// The shard is part of the primary key: another value is another row.
	for id, want := range map[string]int64{"": 0, "123456789": 0xe3069283 % 64} {
		if got := shardOf(id); got != want {
			t.Errorf("shardOf(%q) = %d, want %d", id, got, want)
		}
	}
}
