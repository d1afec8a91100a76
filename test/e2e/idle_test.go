package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// A worker of a Job does what there is, waits for more, and then ends by itself.
func TestIdleWorkerExits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "100ms"), "SPOTBATCH_PULL_EXIT_WHEN_IDLE=10.5s")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 100))
	w := startWorker(t, c)
	waitStatus(t, c, complete)
	done := time.Now()
	exit, err := w.Wait(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	// The status is a little older than it looks.
	if took := time.Since(done); exit.Code != 0 || took < 8*time.Second || took > 15*time.Second {
		t.Errorf("exit %d, %s after the last result; want 0 after pull.exit_when_idle (10.5s)\n%s", exit.Code, took, w.Log())
	}
	cause, _ := waitLine(t, w, "draining")["cause"].(string)
	if !strings.Contains(cause, "no work for 10.5s (pull.exit_when_idle)") {
		t.Errorf("cause of the drain: %s", cause)
	}
	wantSquares(t, c, "r", 100)
}
