package sink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func attempt(id string, started int, by, last string) worker.Attempt {
	return worker.Attempt{Key: key(id), Started: started, Worker: by, Error: last}
}

// wantAttempts checks what stands in the table for the items a to e.
func wantAttempts(t *testing.T, a *sink.Attempts, want ...worker.Attempt) {
	t.Helper()
	got, err := a.Read(t.Context(), []item.Key{key("a"), key("b"), key("c"), key("d"), key("e")})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[item.Key]worker.Attempt, len(want))
	for _, w := range want {
		all[w.Key] = w
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func record(t *testing.T, a *sink.Attempts, attempts ...worker.Attempt) {
	t.Helper()
	if err := a.Record(t.Context(), attempts); err != nil {
		t.Fatal(err)
	}
}

func TestAttempts(t *testing.T) {
	_, db := setup(t)
	a := db.Attempts()
	wantAttempts(t, a)
	record(t, a, attempt("a", 0, "w1", ""), attempt("b", 2, "w1", "signal: killed"), attempt("c", 1, "w1", ""))
	record(t, a, attempt("c", 4, "w2", "bad \xff text"), attempt("d", 1, "w1", ""), attempt("e", 1, "w2", ""))
	wantAttempts(t, a, attempt("a", 0, "w1", ""), attempt("b", 2, "w1", "signal: killed"),
		attempt("c", 4, "w2", "bad \uFFFD text"), attempt("d", 1, "w1", ""), attempt("e", 1, "w2", ""))

	// Only what w1 wrote last is undone.
	err := a.TakeBack(t.Context(), "w1", []worker.Attempt{attempt("b", 1, "w1", ""), attempt("c", 0, "w1", "")},
		[]item.Key{key("a"), key("e"), key("never")})
	if err != nil {
		t.Fatal(err)
	}
	wantAttempts(t, a, attempt("b", 1, "w1", ""), attempt("c", 4, "w2", "bad \uFFFD text"), attempt("d", 1, "w1", ""), attempt("e", 1, "w2", ""))
}

// A record ends in the very commit that stores the item's result, whatever that
// is, and when an OK row is there already.
func TestAttemptEndsWithTheResult(t *testing.T) {
	_, db := setup(t)
	a, store := db.Attempts(), db.Store()
	commit(t, store, ok("c", `1`))
	record(t, a, attempt("a", 1, "w1", ""), attempt("b", 5, "w1", ""), attempt("c", 1, "w1", ""), attempt("d", 1, "w1", ""))
	results := []worker.Result{ok("a", `1`), failed("b", "crashed"), failed("c", "crashed"), ok("d", `1`)}
	for i := range 3 {
		results[i].Attempted = true
	}
	commit(t, store, results...)
	wantAttempts(t, a, attempt("d", 1, "w1", ""))
	if got := rows(t, db, "OK"); len(got) != 3 {
		t.Errorf("%d OK rows, want a, c and d", len(got))
	}
}

// A lost reply leaves the outcome unknown; to write again is safe.
func TestAttemptsWhoseReplyIsLost(t *testing.T) {
	server, db := setup(t)
	a := db.Attempts()
	lose := func() {
		server.Faults().Add(fault.Rule{Method: "Commit", When: fault.After, Code: codes.PermissionDenied, Count: 1})
	}
	lose()
	err := a.Record(t.Context(), []worker.Attempt{attempt("a", 1, "w1", "")})
	if worker.ClassOf(err, "") != worker.ClassStore || !strings.Contains(err.Error(), "record attempts") {
		t.Errorf("record: %v, want an error of the store", err)
	}
	record(t, a, attempt("a", 1, "w1", ""))
	wantAttempts(t, a, attempt("a", 1, "w1", ""))
	lose()
	if err := a.TakeBack(t.Context(), "w1", nil, []item.Key{key("a")}); worker.ClassOf(err, "") != worker.ClassStore {
		t.Errorf("take back: %v, want an error of the store", err)
	}
	if err := a.TakeBack(t.Context(), "w1", nil, []item.Key{key("a")}); err != nil {
		t.Error(err)
	}
	wantAttempts(t, a)
	server.Faults().Add(fault.Rule{Method: "StreamingRead", Code: codes.PermissionDenied, Count: 1})
	if _, err := a.Read(t.Context(), []item.Key{key("a")}); worker.ClassOf(err, "") != worker.ClassStore || errors.Is(err, worker.ErrRejected) {
		t.Errorf("read: %v, want an error of the store", err)
	}
}
