package e2e_test

import (
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// The tests of this file are cases of docs/field-cases.md that need whole
// processes.

// clearFaults takes all faults of the cluster's localcloud away.
func clearFaults(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx(t), http.MethodDelete, "http://"+cloudHost(t, c, "LOCALCLOUD_ADMIN_HOST")+"/faults", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("clear faults: %d %v", resp.StatusCode, err)
	}
}

// waitSubscription waits for a state of the workers' subscription.
func waitSubscription(t *testing.T, c *cluster.Cluster, want func(subscription) bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := ctx(t); ; {
		s := itemsSubscription(t, c)
		if want(s) {
			return
		}
		select {
		case <-tick.C:
		case <-until.Done():
			t.Fatalf("subscription: %+v", s)
		}
	}
}

// A small backlog is shared: a worker takes no more of it than it may hold, so
// that one that comes later finds work, and two take half of the time (case
// 1.10).
func TestSmallBacklogIsShared(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "1s"), "SPOTBATCH_BATCH_MAX_SIZE=4", "SPOTBATCH_PULL_MAX_OUTSTANDING=8", "SPOTBATCH_LOG_LEVEL=debug")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 40))
	first := startWorker(t, c)
	waitLine(t, first, "batch enters the model")
	start := time.Now()
	second := startWorker(t, c)
	waitAllAcked(t, c, 40)
	// Ten batches of a second. One worker alone needs ten.
	if took := time.Since(start); took > 9*time.Second {
		t.Errorf("40 items took two workers %s, want 5s or 6s", took)
	}
	for i, w := range []*cluster.Process{first, second} {
		if n := len(w.Lines("batch enters the model")); n < 3 || n > 7 {
			t.Errorf("worker %d ran %d batches of 10", i, n)
		}
	}
	wantSquares(t, c, "r", 40)
}

// Acks that do not arrive, while streams are closed as well, bring messages
// back after their leases: they are found stored, and the model does not run
// (case 1.17).
func TestLostAcksRunNoModel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	addFault(t, c, `{"method": "Acknowledge", "code": "UNAVAILABLE"}`)
	publisher(t, c, "publish", "--run", "r", numbers(t, 20))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	metrics := waitLine(t, w, "serving metrics")["addr"]
	waitStatus(t, c, complete)
	runs := len(w.Lines("batch enters the model"))
	addFault(t, c, `{"method": "StreamingPull", "close": true, "count": 3}`)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for outcomes(t, metrics, "skipped") < 20 {
		select {
		case <-tick.C:
		case <-ctx(t).Done():
			t.Fatal("the messages did not come back")
		}
	}
	clearFaults(t, c)
	waitAllAcked(t, c, 20)
	if got := len(w.Lines("batch enters the model")); runs == 0 || got != runs {
		t.Errorf("the model ran %d times, then %d times; want no more after the first", runs, got)
	}
	wantSquares(t, c, "r", 20)
}

// A Spanner that takes a second for each commit, and a collector that answers
// nothing, leave the drain inside its time, with every delivery acked or nacked
// (case 4.1).
func TestDrainWithASlowCloud(t *testing.T) {
	t.Parallel()
	hole, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	c := newCluster(t, append(baseEnv("-sleep", "1s"), "SPOTBATCH_BATCH_MAX_SIZE=4", "SPOTBATCH_PULL_MAX_OUTSTANDING=16")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 16))
	addFault(t, c, `{"service": "google.spanner.v1.Spanner", "method": "Commit", "delay": "1s"}`)
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug",
		"SPOTBATCH_TELEMETRY_TRACES=otlp", "SPOTBATCH_TELEMETRY_METRICS=otlp",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+hole.Addr().String())
	waitLine(t, w, "batch enters the model")
	waitSubscription(t, c, func(s subscription) bool { return s.Leased == 16 })
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 || exit.Took > 10*time.Second {
		t.Errorf("exit %d after %s, want 0 within 10s\n%s", exit.Code, exit.Took, w.Log())
	}
	s := itemsSubscription(t, c)
	if s.Leased != 0 || s.Acked+s.Ready+s.Delayed != 16 || s.Acked == 0 {
		t.Errorf("after the drain: %+v, want the batch in the model acked and the others back", s)
	}
	if rows := export(t, c, "r"); len(rows) != s.Acked {
		t.Errorf("%d rows, %d acks", len(rows), s.Acked)
	}
}
