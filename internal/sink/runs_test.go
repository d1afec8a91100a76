package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/spanner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func begin(t *testing.T, runs *sink.Runs, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, created, err := runs.Begin(t.Context(), id, "data "+id); err != nil || !created {
			t.Fatalf("begin %s: created %t, error %v", id, created, err)
		}
	}
}

func TestUpdateNeverGoesBack(t *testing.T) {
	_, db := setup(t)
	runs := db.Runs()
	begin(t, runs, "r")
	steps := []struct {
		state     publish.State
		published int64
		err       error
		want      publish.Run
	}{
		{publish.StatePublishing, 5, nil, publish.Run{State: publish.StatePublishing, Published: 5}},
		{publish.StatePublishing, 3, nil, publish.Run{State: publish.StatePublishing, Published: 5}},
		{publish.StatePublished, 7, nil, publish.Run{State: publish.StatePublished, Published: 7}},
		{publish.StatePublished, 7, nil, publish.Run{State: publish.StatePublished, Published: 7}},
		{publish.StatePublishing, 9, publish.ErrPublished, publish.Run{State: publish.StatePublished, Published: 7}},
	}
	check := func(want publish.Run) {
		t.Helper()
		got, err := runs.Get(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		want.ID, want.Dataset = "r", "data r"
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(publish.Run{}, "CreatedAt", "UpdatedAt")); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
	}
	for i, step := range steps {
		if err := runs.Update(t.Context(), "r", step.state, step.published); !errors.Is(err, step.err) {
			t.Fatalf("step %d: error %v, want %v", i, err, step.err)
		}
		check(step.want)
	}
	before, err := runs.Cancel(t.Context(), "r")
	if err != nil || before.State != publish.StatePublished || before.Published != 7 {
		t.Errorf("cancel: %+v before, error %v", before, err)
	}
	for _, state := range []publish.State{publish.StatePublishing, publish.StatePublished} {
		if err := runs.Update(t.Context(), "r", state, 9); !errors.Is(err, publish.ErrCancelled) {
			t.Errorf("update to %s of a cancelled run: %v", state, err)
		}
	}
	check(publish.Run{State: publish.StateCancelled, Published: 7})
	if _, err := runs.Cancel(t.Context(), "none"); !errors.Is(err, publish.ErrNoRun) {
		t.Errorf("cancel of no run: %v", err)
	}
}

func TestListBeginsWithTheLastRun(t *testing.T) {
	_, db := setup(t)
	begin(t, db.Runs(), "b", "c", "a")
	var got []string
	err := db.Runs().List(t.Context(), func(run publish.Run) error {
		got = append(got, run.ID+": "+run.Dataset)
		return nil
	})
	if diff := cmp.Diff([]string{"a: data a", "c: data c", "b: data b"}, got); err != nil || diff != "" {
		t.Errorf("error %v; runs (-want +got):\n%s", err, diff)
	}
	stop := errors.New("enough")
	if err := db.Runs().List(t.Context(), func(publish.Run) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want visit's own", err)
	}
}

func TestCancelledReadsSeldom(t *testing.T) {
	server, db := setup(t)
	begin(t, db.Runs(), "a", "b", "c")
	if _, err := db.Runs().Cancel(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	cancelled := db.Cancellations()
	want := map[string]bool{"b": true}
	for range 3 {
		got, err := cancelled.Cancelled(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("error %v; cancelled (-want +got):\n%s", err, diff)
		}
		// Only the first of these calls reads.
		server.Faults().Add(fault.Rule{Method: "ExecuteStreamingSql", Code: codes.PermissionDenied})
	}
	server.Faults().Clear()
	if _, err := db.Runs().Cancel(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	got, err := db.Cancellations().Cancelled(t.Context())
	if diff := cmp.Diff(map[string]bool{"b": true, "c": true}, got); err != nil || diff != "" {
		t.Errorf("error %v; cancelled (-want +got):\n%s", err, diff)
	}
}

// store puts n results and as many attempts of the run into the database.
func store(t *testing.T, db *sink.Database, client *spanner.Client, runID string, n int) {
	t.Helper()
	var results []worker.Result
	var attempts []*spanner.Mutation
	for i := range n {
		id := fmt.Sprint(i)
		results = append(results, worker.Result{
			Key: item.Key{RunID: runID, ItemID: id}, Status: worker.StatusOK, Output: []byte(id), ModelVersion: "m", Worker: "w",
		})
		attempts = append(attempts, spanner.Insert("Attempts", []string{"RunId", "Shard", "ItemId", "Started", "UpdatedAt"},
			[]any{runID, i % 64, id, 1, spanner.CommitTimestamp}))
	}
	commit(t, db.Store(), results...)
	if _, err := client.Apply(t.Context(), attempts); err != nil {
		t.Fatal(err)
	}
}

// left counts the rows of a run in all tables.
func left(t *testing.T, client *spanner.Client, runID string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, table := range []string{"Results", "Attempts", "Runs"} {
		statement := spanner.Statement{SQL: "SELECT COUNT(*) FROM " + table + " WHERE RunId = @run", Params: map[string]any{"run": runID}}
		err := client.Single().Query(t.Context(), statement).Do(func(row *spanner.Row) error {
			var n int64
			err := row.Columns(&n)
			counts[table] = n
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

func TestPurgeRemovesOneRun(t *testing.T) {
	server, db := setup(t)
	client, err := spanner.NewClientWithConfig(t.Context(), "projects/demo/instances/spotbatch/databases/spotbatch",
		spanner.ClientConfig{DisableNativeMetrics: true}, localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	begin(t, db.Runs(), "r", "r2", "q")
	store(t, db, client, "r", 3000)
	store(t, db, client, "r2", 10)
	store(t, db, client, "q", 10)

	// Whatever a purge that breaks has removed, the run is the last to go.
	server.Faults().Add(fault.Rule{Method: "Commit", Code: codes.PermissionDenied, Probability: 0.5, Seed: 1})
	if err := db.Runs().Purge(t.Context(), "r", func(int64) {}); err == nil || !strings.Contains(err.Error(), "databaseUser") {
		t.Errorf("purge without permission: %v", err)
	}
	server.Faults().Clear()
	if got := left(t, client, "r"); got["Runs"] != 1 {
		t.Errorf("rows %v after a purge that broke", got)
	}
	var last int64
	there := left(t, client, "r")
	err = db.Runs().Purge(t.Context(), "r", func(rows int64) {
		if rows <= last {
			t.Errorf("%d rows after %d", rows, last)
		}
		last = rows
	})
	if err != nil || last != there["Results"]+there["Attempts"] {
		t.Errorf("%d rows of %v removed, error %v", last, there, err)
	}
	if diff := cmp.Diff(map[string]int64{"Results": 0, "Attempts": 0, "Runs": 0}, left(t, client, "r")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for _, other := range []string{"r2", "q"} {
		if diff := cmp.Diff(map[string]int64{"Results": 10, "Attempts": 10, "Runs": 1}, left(t, client, other)); diff != "" {
			t.Errorf("rows of %s (-want +got):\n%s", other, diff)
		}
	}
	if err := db.Runs().Purge(t.Context(), "r", func(int64) {}); !errors.Is(err, publish.ErrNoRun) {
		t.Errorf("second purge: %v", err)
	}
}

func TestPurgeStops(t *testing.T) {
	_, db := setup(t)
	begin(t, db.Runs(), "r")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Runs().Purge(ctx, "r", func(int64) {}); err == nil {
		t.Error("purge went on after a stop")
	}
}

func TestCountNamesFailuresByClass(t *testing.T) {
	_, db := setup(t)
	timeout := failed("d", "too slow")
	timeout.Class = worker.ClassInvalidInput
	commit(t, db.Store(), ok("a", "1"), failed("c", "bad"), failed("b", "bad"), timeout)
	counts, err := db.Results().Count(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	want := publish.Counts{OK: 1, Failed: 3, Failures: []publish.Failure{
		{Class: "item_error", Items: 2, Example: "b"}, {Class: "invalid_input", Items: 1, Example: "d"},
	}}
	if diff := cmp.Diff(want, counts, cmpopts.IgnoreFields(publish.Counts{}, "FirstResultAt", "LastResultAt")); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if counts.FirstResultAt.IsZero() || counts.LastResultAt.Before(counts.FirstResultAt) {
		t.Errorf("results from %s to %s", counts.FirstResultAt, counts.LastResultAt)
	}
}

func TestRowsOfKeys(t *testing.T) {
	_, db := setup(t)
	commit(t, db.Store(), ok("a", `{"x":1}`), failed("b", "bad"))
	found, err := db.Results().Rows(t.Context(), []item.Key{key("a"), key("b"), key("none"), {RunID: "other", ItemID: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[item.Key]publish.Row{
		key("a"): {ItemID: "a", Status: "OK", Output: `{"x":1}`, ModelVersion: "m1", Worker: "w1"},
		key("b"): {ItemID: "b", Status: "FAILED", ErrorClass: "item_error", ErrorMessage: "bad", ModelVersion: "m2", Worker: "w2"},
	}
	if diff := cmp.Diff(want, found, cmpopts.IgnoreFields(publish.Row{}, "CommittedAt")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
