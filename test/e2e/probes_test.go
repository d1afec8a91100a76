package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// get fetches a page of a worker.
func get(t *testing.T, addr any, path string) (int, string) {
	t.Helper()
	code, body, err := cluster.Get(ctx(t), fmt.Sprintf("http://%v%s", addr, path))
	if err != nil {
		t.Fatal(err)
	}
	return code, body
}

func TestProbesTellTheTruth(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv("-ready-after", "1s")...)
	w := startWorker(t, c)
	addr := waitLine(t, w, "serving health")["addr"]
	if code, _ := get(t, addr, "/livez"); code != http.StatusOK {
		t.Errorf("/livez during the load: %d, want 200", code)
	}
	if code, _ := get(t, addr, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz during the load: %d, want 503", code)
	}
	waitReady(t, w)
	stop(t, w, syscall.SIGTERM)
}

// waitReady waits until /readyz answers 200.
func waitReady(t *testing.T, w *cluster.Process) {
	t.Helper()
	addr := waitLine(t, w, "serving health")["addr"]
	limit := ctx(t)
	for {
		if code, _ := get(t, addr, "/readyz"); code == http.StatusOK {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit.Done():
			t.Fatalf("/readyz never answered 200\n%s", w.Log())
		}
	}
}

func TestMetricsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	w := startWorker(t, c)
	addr := waitLine(t, w, "serving metrics")["addr"]
	waitLine(t, w, "model ready")
	_, page := get(t, addr, "/metrics")
	for _, want := range []string{
		`spotbatch_items_total{outcome="ok"} 0`,
		`spotbatch_items_total{outcome="nacked"} 0`,
		`spotbatch_nacks_total{reason="drain"} 0`,
		`spotbatch_failures_total{class="runner_crash"} 0`,
		`spotbatch_device_seconds_total{use="useful"} 0`,
		`spotbatch_device_idle_seconds_total{cause="committing"} 0`,
		`spotbatch_held{stage="waiting"} 0`,
		`spotbatch_ack_late_total 0`,
		`spotbatch_runner_restarts_total 0`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing from:\n%s", want, page)
		}
	}
	publisher(t, c, "publish", "--run", "r", numbers(t, 10))
	waitStatus(t, c, complete)
	if got := outcomes(t, addr, "ok"); got != 10 {
		t.Errorf("ok items: got %v, want 10", got)
	}
}

// outcomes reads from a metrics page how many items ended that way; -1 when it
// does not say.
func outcomes(t *testing.T, addr any, outcome string) float64 {
	t.Helper()
	_, page := get(t, addr, "/metrics")
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "spotbatch_items_total{") || !strings.Contains(line, fmt.Sprintf("outcome=%q", outcome)) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("metrics line %q: %v", line, err)
		}
		return value
	}
	return -1
}
