package e2e_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/test/cluster"
)

// 200 items, 2 workers, one of which is killed in the middle: the other one
// finishes, and every row is right.
func TestKilledWorkerLosesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv("-sleep", "20ms")...)
	// Small batches, so that there is a middle.
	env := []string{"SPOTBATCH_BATCH_MAX_SIZE=4"}
	data := numbers(t, 200)
	publisher(t, c, "publish", "--run", "r", data)
	victim := startWorker(t, c, env...)
	startWorker(t, c, env...)
	waitStatus(t, c, func(s cluster.Status) bool { return s.OK >= 20 })
	waitLine(t, victim, "model ready")
	if exit := stop(t, victim, syscall.SIGKILL); exit.Code != -1 {
		t.Errorf("the killed worker exited %d by itself", exit.Code)
	}
	if s := waitStatus(t, c, complete); s.OK != 200 || s.Failed != 0 || s.Outstanding != 0 || s.Published != 200 {
		t.Errorf("status: %+v, want 200 published and ok", s)
	}
	publisher(t, c, "verify", "--run", "r", data)
	wantSquares(t, c, "r", 200)
}

// A drained worker gives back what it holds: the other worker goes on at once,
// long before a lease would have ended.
func TestDrainedWorkerGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "50ms"), "SPOTBATCH_PULL_LEASE=10m")...)
	env := []string{"SPOTBATCH_BATCH_MAX_SIZE=4"}
	data := numbers(t, 200)
	publisher(t, c, "publish", "--run", "r", data)
	victim := startWorker(t, c, env...)
	startWorker(t, c, env...)
	waitStatus(t, c, func(s cluster.Status) bool { return s.OK >= 20 })
	waitLine(t, victim, "model ready")
	if exit := stop(t, victim, syscall.SIGTERM); exit.Code != 0 || exit.Took > 10*time.Second {
		t.Errorf("drain: exit %d after %s, want 0 within 10s\n%s", exit.Code, exit.Took, victim.Log())
	}
	begin := time.Now()
	waitStatus(t, c, complete)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("what the drained worker held came back after %s", took)
	}
	publisher(t, c, "verify", "--run", "r", data)
	wantSquares(t, c, "r", 200)
}

// Duplicates, as a publisher that was killed and started again makes them, find
// their results stored: they are acked and the model does not run.
func TestDuplicatesRunNoModel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 20))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	metrics := waitLine(t, w, "serving metrics")["addr"]
	waitStatus(t, c, complete)
	runs := len(w.Lines("batch enters the model"))

	// With a number of their own: a run of the model would be seen in the rows.
	publishAgain(t, c, "r", 20, func(int) int { return 0 })
	for outcomes(t, metrics, "skipped") < 20 {
		if ctx(t).Err() != nil {
			t.Fatal("the duplicates were not skipped")
		}
	}
	if got := len(w.Lines("batch enters the model")); runs == 0 || got != runs {
		t.Errorf("the model ran %d times, then %d times; want no more after the first", runs, got)
	}
	wantSquares(t, c, "r", 20)
}

// publishAgain publishes another message, with the payload {"n":number(i)}, for
// each of the first n items of a run.
func publishAgain(t *testing.T, c *cluster.Cluster, run string, n int, number func(i int) int) {
	t.Helper()
	topic := pubsubClient(t, c).Publisher("items")
	defer topic.Stop()
	for i := range n {
		it := item.Item{
			Key:         item.Key{RunID: run, ItemID: fmt.Sprintf("i%d", i)},
			ContentType: item.ContentTypeJSON,
			Data:        fmt.Appendf(nil, `{"n":%d}`, number(i)),
		}
		if _, err := topic.Publish(ctx(t), &pubsub.Message{Data: it.Data, Attributes: it.Attributes()}).Get(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
}
