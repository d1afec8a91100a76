package sink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/spanner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// setup starts a Spanner with the tables, and extra statements, and opens it.
func setup(t *testing.T, extra ...string) (*localcloud.Server, *sink.Database) {
	t.Helper()
	server := localcloudtest.Start(t)
	return server, open(t, server, localcloudtest.Database(t, server, extra...))
}

func open(t *testing.T, server *localcloud.Server, name string) *sink.Database {
	t.Helper()
	db, err := sink.Open(t.Context(), name, slog.New(slog.DiscardHandler), localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func key(id string) item.Key { return item.Key{RunID: "r", ItemID: id} }

func ok(id, output string) worker.Result {
	return worker.Result{
		Key: key(id), Status: worker.StatusOK, Output: []byte(output), ModelVersion: "m1", Worker: "w1", InferMillis: 1.5,
	}
}

func failed(id, message string) worker.Result {
	return worker.Result{
		Key: key(id), Status: worker.StatusFailed, Class: worker.ClassItemError, Message: message, ModelVersion: "m2", Worker: "w2",
	}
}

func commit(t *testing.T, store *sink.Store, results ...worker.Result) {
	t.Helper()
	if err := errors.Join(store.Commit(t.Context(), results)...); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// rows returns the rows of the run by item.
func rows(t *testing.T, db *sink.Database, status string) map[string]publish.Row {
	t.Helper()
	found := map[string]publish.Row{}
	err := db.Results().Each(t.Context(), "r", status, func(row publish.Row) error {
		if time.Since(row.CommittedAt) > time.Minute {
			t.Errorf("row %q committed at %s", row.ItemID, row.CommittedAt)
		}
		found[row.ItemID] = row
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCommitAndLookup(t *testing.T) {
	_, db := setup(t)
	store := db.Store()
	output := `{"n":9007199254740993,"n":1.0, "s":"<é>\u00e9"}`
	commit(t, store, ok("a", output), failed("b", "bad \xff\x00 text "+strings.Repeat("é", 3000)), ok("x/y z", `1`))

	found, err := store.Lookup(t.Context(), []item.Key{key("a"), key("b"), key("none"), {RunID: "other", ItemID: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[item.Key]worker.Stored{
		key("a"): {Status: worker.StatusOK, ModelVersion: "m1"},
		key("b"): {Status: worker.StatusFailed, ModelVersion: "m2"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("lookup (-want +got):\n%s", diff)
	}
	wantRows := map[string]publish.Row{
		"a":     {ItemID: "a", Status: "OK", Output: output, ModelVersion: "m1", Worker: "w1"},
		"b":     {ItemID: "b", Status: "FAILED", ErrorClass: "item_error", ErrorMessage: "bad \uFFFD\x00 text " + strings.Repeat("é", 3000)[:2*2036], ModelVersion: "m2", Worker: "w2"},
		"x/y z": {ItemID: "x/y z", Status: "OK", Output: "1", ModelVersion: "m1", Worker: "w1"},
	}
	if diff := cmp.Diff(wantRows, rows(t, db, ""), cmpopts.IgnoreFields(publish.Row{}, "CommittedAt")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := rows(t, db, "FAILED"); len(got) != 1 || got["b"].Status != "FAILED" {
		t.Errorf("failed rows %v, want b", got)
	}
	statuses, err := db.Results().Statuses(t.Context(), []item.Key{key("a"), key("b"), key("none")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[item.Key]string{key("a"): "OK", key("b"): "FAILED"}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestFailedNeverReplacesOK(t *testing.T) {
	_, db := setup(t)
	store := db.Store()
	commit(t, store, ok("a", "1"))
	commit(t, store, failed("a", "no"))
	commit(t, store, failed("a", "no"), failed("b", "first"))
	commit(t, store, failed("b", "second"))
	got := rows(t, db, "")
	if got["a"].Status != "OK" || got["a"].Output != "1" || got["a"].ErrorClass != "" {
		t.Errorf("row a is %+v, want it OK still", got["a"])
	}
	if got["b"].ErrorMessage != "second" {
		t.Errorf("row b is %+v, want the second failure", got["b"])
	}
	commit(t, store, ok("b", "2"))
	if b := rows(t, db, "")["b"]; b.Status != "OK" || b.Output != "2" || b.ErrorClass != "" || b.ErrorMessage != "" {
		t.Errorf("row b is %+v, want it OK without an error", b)
	}
}

func TestCommitWhoseReplyIsLost(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Aborted} {
			t.Run(fmt.Sprint(when, code), func(t *testing.T) {
				server, db := setup(t)
				if err := db.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				server.Faults().Add(fault.Rule{Service: "google.spanner.v1.Spanner", Method: "Commit", When: when, Code: code, Count: 3})
				commit(t, db.Store(), ok("a", "1"), failed("b", "no"), ok("c", "3"))
				counts, err := db.Results().Count(t.Context(), "r")
				if err != nil {
					t.Fatal(err)
				}
				if counts.OK != 2 || counts.Failed != 1 {
					t.Errorf("counts %+v, want 2 OK and 1 FAILED", counts)
				}
			})
		}
	}
}

func TestCommitAndLookupEndWithTheirContext(t *testing.T) {
	server, db := setup(t)
	store := db.Store()
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Faults().Add(fault.Rule{Service: "google.spanner.v1.Spanner", BlackHole: true})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	for _, err := range store.Commit(ctx, []worker.Result{ok("a", "1"), failed("b", "no")}) {
		if err == nil || worker.ClassOf(err, "") != worker.ClassStore || errors.Is(err, worker.ErrRejected) {
			t.Errorf("commit error %v, want one of class store", err)
		}
	}
	if _, err := store.Lookup(ctx, []item.Key{key("a")}); worker.ClassOf(err, "") != worker.ClassStore {
		t.Errorf("lookup error %v, want one of class store", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %s after a deadline of 200ms", took)
	}
}

func TestRefusedRowStandsAlone(t *testing.T) {
	// A table of an operator who has changed a column.
	var narrow string
	for _, statement := range spannerschema.Statements() {
		if strings.HasPrefix(statement, "CREATE TABLE Results") {
			narrow = regexp.MustCompile(`(Worker\s+)STRING\(128\)`).ReplaceAllString(statement, "${1}STRING(4)")
		}
	}
	_, db := setup(t, "DROP TABLE Results", narrow)
	bad := ok("bad", "1")
	bad.Worker = "too long"
	errs := db.Store().Commit(t.Context(), []worker.Result{ok("a", "1"), bad, ok("b", "2"), ok("c", "3")})
	for i, err := range errs {
		if got, want := errors.Is(err, worker.ErrRejected), i == 1; got != want || !want && err != nil {
			t.Errorf("result %d: %v", i, err)
		}
	}
	if got := rows(t, db, ""); len(got) != 3 {
		t.Errorf("%d rows, want 3", len(got))
	}
}

func TestEachStopsAtTheVisitorsError(t *testing.T) {
	_, db := setup(t)
	commit(t, db.Store(), ok("a", "1"), ok("b", "2"), ok("c", "3"))
	stop := errors.New("stop")
	visits := 0
	err := db.Results().Each(t.Context(), "r", "", func(publish.Row) error {
		visits++
		return stop
	})
	if err != stop || visits != 1 { //nolint:errorlint // The contract is the error itself.
		t.Errorf("error %v after %d visits, want %v after 1", err, visits, stop)
	}
}

func TestRuns(t *testing.T) {
	_, db := setup(t)
	runs := db.Runs()
	if _, err := runs.Get(t.Context(), "r"); !errors.Is(err, publish.ErrNoRun) {
		t.Errorf("error %v, want %v", err, publish.ErrNoRun)
	}
	if err := runs.Update(t.Context(), "r", publish.StatePublished, 1); !errors.Is(err, publish.ErrNoRun) {
		t.Errorf("error %v, want %v", err, publish.ErrNoRun)
	}
	run, created, err := runs.Begin(t.Context(), "r", "data")
	if err != nil || !created {
		t.Fatalf("begin: created %t, error %v", created, err)
	}
	if err := runs.Update(t.Context(), "r", publish.StatePublished, 7); err != nil {
		t.Fatal(err)
	}
	again, created, err := runs.Begin(t.Context(), "r", "other")
	if err != nil || created {
		t.Fatalf("begin again: created %t, error %v", created, err)
	}
	got, err := runs.Get(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("begin and get differ:\n%s", diff)
	}
	want := publish.Run{ID: "r", Dataset: "data", State: publish.StatePublished, Published: 7, CreatedAt: run.CreatedAt}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(publish.Run{}, "UpdatedAt"), cmpopts.EquateApproxTime(time.Microsecond)); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if got.UpdatedAt.Before(got.CreatedAt.Add(-time.Second)) {
		t.Errorf("updated at %s, created at %s", got.UpdatedAt, got.CreatedAt)
	}
}

func TestCountOfARunWithoutRows(t *testing.T) {
	_, db := setup(t)
	counts, err := db.Results().Count(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(publish.Counts{}, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestSetup(t *testing.T) {
	const name = "projects/demo/instances/mine/databases/results"
	server := localcloudtest.Start(t)
	options := localcloudtest.SpannerOptions(server)
	steps := func(emulator bool) (map[string]bool, error) {
		created := map[string]bool{}
		err := sink.Setup(t.Context(), name, emulator, func(s publish.Step) { created[s.What] = s.Created }, options...)
		return created, err
	}
	if err := open(t, server, name).Ping(t.Context()); !errors.Is(err, worker.ErrPermanent) || !strings.Contains(err.Error(), "run `publisher setup`") {
		t.Errorf("ping before set-up: %v", err)
	}
	if _, err := steps(false); err == nil || !strings.Contains(err.Error(), "gcloud spanner databases create results --instance=mine") {
		t.Errorf("set-up without a database: %v", err)
	}
	for _, created := range []bool{true, false} {
		got, err := steps(true)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{
			"spanner instance mine": created, "spanner database results": created,
			"table Runs": created, "table Results": created, "table Attempts": created,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	}
	if err := open(t, server, name).Ping(t.Context()); err != nil {
		t.Errorf("ping after set-up: %v", err)
	}
}

func TestSetupCreatesOnlyWhatIsMissing(t *testing.T) {
	server, db := setup(t, "DROP TABLE Attempts")
	if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "read table Attempts") {
		t.Errorf("ping without Attempts: %v", err)
	}
	commit(t, db.Store(), ok("a", "1"))
	var created []string
	err := sink.Setup(t.Context(), "projects/demo/instances/spotbatch/databases/spotbatch", false, func(s publish.Step) {
		if s.Created {
			created = append(created, s.What)
		}
	}, localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"table Attempts"}, created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if got := rows(t, db, ""); len(got) != 1 {
		t.Errorf("%d rows after set-up, want 1", len(got))
	}
}

func TestPermissionDeniedNamesThePermission(t *testing.T) {
	server, db := setup(t)
	deny := fault.Rule{Code: codes.PermissionDenied, Message: "caller is missing a permission"}
	deny.Service, deny.Method = "google.spanner.v1.Spanner", "StreamingRead"
	server.Faults().Add(deny)
	// It may have been granted a moment ago.
	if err := db.Ping(t.Context()); err == nil || errors.Is(err, worker.ErrPermanent) || !strings.Contains(err.Error(), "grant roles/spanner.databaseUser") {
		t.Errorf("ping: %v", err)
	}
	deny.Service, deny.Method = "google.spanner.admin.database.v1.DatabaseAdmin", "GetDatabaseDdl"
	server.Faults().Add(deny)
	err := sink.Setup(t.Context(), "projects/demo/instances/spotbatch/databases/spotbatch", false, func(publish.Step) {}, localcloudtest.SpannerOptions(server)...)
	if err == nil || !strings.Contains(err.Error(), "spanner.databases.getDdl on projects/demo/instances/spotbatch/databases/spotbatch") {
		t.Errorf("set-up: %v", err)
	}
	if spanner.ErrCode(err) != codes.PermissionDenied {
		t.Errorf("the cause is lost: %v", err)
	}
}
