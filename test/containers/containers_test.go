// Package containers_test runs spotbatch as it runs in a cluster: the worker is
// process 1 of a container without a shell, without root, with a read-only file
// system, and is stopped and killed by the engine.
//
// The images are built here, FROM scratch, of static binaries; nothing is
// pulled. SPOTBATCH_TEST_REQUIRE_DOCKER=1 turns the skip without a Docker engine
// into a failure. SPOTBATCH_TEST_EMULATORS=official takes Google's emulators in
// place of localcloud; see cloud_test.go.
package containers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	// items is enough for some seconds of two workers at perBatch.
	items    = 600
	perBatch = 80 * time.Millisecond
	// grace is what GKE gives a Spot node.
	grace = 15 * time.Second
	// drainTimeout is the default of drain.timeout.
	drainTimeout = 10 * time.Second
)

func TestContainers(t *testing.T) {
	// Its image would have to be pulled. Whatever is made here is removed by
	// t.Cleanup, which an interrupted test does not reach.
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	s := newSite(t, connect(t))
	s.publisherOK(t, "setup")

	// One after the other: they share the subscription and two cores.
	t.Run("preempted workers lose nothing", func(t *testing.T) { preempted(t, s) })
	t.Run("stop while the model loads", func(t *testing.T) { stopWhileLoading(t, s) })
}

// preempted takes one worker away with notice and one without, in the middle of
// a run.
func preempted(t *testing.T, s *site) {
	const run = "preempted"
	drained, killed := s.startWorker(t, "drained"), s.startWorker(t, "killed")
	s.publisherOK(t, "publish", "--run", run, itemsPath)

	s.waitStatus(t, run, func(st status) bool { return st.OK >= items/4 })
	end := drained.stop(t, grace)
	if want := (exit{}); end.exit != want {
		t.Errorf("worker stopped with %v of grace: %+v, want exit code 0 by itself", grace, end.exit)
	}
	if end.took >= drainTimeout {
		t.Errorf("worker took %v to drain, drain.timeout is %v", end.took, drainTimeout)
	}
	t.Logf("drained in %v", end.took.Round(time.Millisecond))
	first := s.startWorker(t, "replacement-1")

	s.waitStatus(t, run, func(st status) bool { return st.OK >= items/2 })
	if got, want := killed.kill(t), (exit{Code: 137}); got != want {
		t.Errorf("killed worker: %+v, want %+v", got, want)
	}
	if st := s.status(t, run); st.Outstanding == 0 {
		t.Fatalf("the run was over before the worker was killed: %+v", st)
	}
	second := s.startWorker(t, "replacement-2")

	done := s.waitStatus(t, run, func(st status) bool { return st.Complete })
	want := status{RunID: run, State: "PUBLISHED", Published: items, OK: items, Complete: true}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("status of the complete run (-want +got):\n%s", diff)
	}
	s.publisherOK(t, "verify", "--run", run, itemsPath)
	checkRows(t, s.publisherOK(t, "export", "--run", run), drained.name, killed.name, first.name)

	for _, w := range []*worker{first, second} {
		if end := w.stop(t, grace); end.exit != (exit{}) {
			t.Errorf("idle worker stopped: %+v after %v, want exit code 0", end.exit, end.took)
		}
	}
}

// row is a line of an export, as far as it is looked at.
type row struct {
	ItemID       string `json:"item_id"`
	Status       string `json:"status"`
	Output       square `json:"output"`
	ModelVersion string `json:"model_version"`
	Worker       string `json:"worker"`
}

type square struct {
	Square int64 `json:"square"`
}

// checkRows fails unless the export has each item once, with the right result,
// and each of the workers made some of them.
func checkRows(t *testing.T, export string, workers ...string) {
	t.Helper()
	got, made := map[string]row{}, map[string]int{}
	for line := range strings.Lines(export) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("line of the export %q: %v", line, err)
		}
		if _, twice := got[r.ItemID]; twice {
			t.Errorf("item %s was exported twice", r.ItemID)
		}
		made[r.Worker]++
		r.Worker = ""
		got[r.ItemID] = r
	}
	want := make(map[string]row, items)
	for n := range int64(items) {
		want[itemID(n)] = row{ItemID: itemID(n), Status: "OK", Output: square{n * n}, ModelVersion: "square-1"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	t.Logf("rows of each worker: %v", made)
	for _, name := range workers {
		if made[name] == 0 {
			t.Errorf("worker %s made no row: %v", name, made)
		}
	}
}

// stopWhileLoading asks for the stop of a worker whose model is not loaded yet.
// As process 1 it is not ended by a signal that it does not handle.
func stopWhileLoading(t *testing.T, s *site) {
	w := s.startLoadingWorker(t, "loading")
	if got := w.get(t, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the model loads: %d, want %d", got, http.StatusServiceUnavailable)
	}
	end := w.stop(t, grace)
	if want := (exit{}); end.exit != want {
		t.Errorf("worker stopped while its model loads: %+v, want exit code 0", end.exit)
	}
	if limit := 2 * time.Second; end.took > limit {
		t.Errorf("worker took %v to stop while its model loads, want at most %v", end.took, limit)
	}
	if ready := strings.Contains(w.logs(t), "model ready"); ready {
		t.Error("the model was ready before the stop")
	}
}

// itemID is the ID of the item with the number n.
func itemID(n int64) string { return fmt.Sprintf("row-%03d", n) }

// dataset is the file of all items, one a line.
func dataset() []byte {
	var lines []byte
	for n := range int64(items) {
		lines = fmt.Appendf(lines, "{\"id\":%q,\"n\":%d}\n", itemID(n), n)
	}
	return slices.Clip(lines)
}
