package e2e_test

import (
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// A cancelled run is over within 10 s: workers skip the rest of it, and go on
// with what else there is.
func TestCancelledRunIsSkipped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "500ms"), "SPOTBATCH_BATCH_MAX_SIZE=4")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 400))
	w := startWorker(t, c)
	metrics := waitLine(t, w, "serving metrics")["addr"]
	waitStatus(t, c, func(s cluster.Status) bool { return s.OK >= 4 })
	begin := time.Now()
	publisher(t, c, "cancel", "--run", "r")
	for outcomes(t, metrics, "skipped") < 300 {
		if ctx(t).Err() != nil {
			t.Fatal("the rest of the run was not skipped")
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the rest of the run was skipped after %s, want within 10s", took)
	}
	publisher(t, c, "publish", "--run", "next", numbers(t, 4))
	s, err := c.WaitStatus(ctx(t), "next", complete)
	if err != nil || s.OK != 4 {
		t.Errorf("the run after it: %+v, %v", s, err)
	}
}
