package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// An item that takes the whole worker with it leaves nothing but a start on
// record. It is given up when it has done so alone twice; what was in its batches
// is stored, and no worker that comes after dies of it.
func TestItemThatKillsItsWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv(), "SPOTBATCH_INFER_SUSPECT_AFTER=2", "SPOTBATCH_INFER_MAX_ITEM_CRASHES=2")...)
	var data strings.Builder
	for _, line := range []string{`{"id":"a","n":2}`, `{"id":"b","kill_worker":true}`, `{"id":"c","n":3}`} {
		data.WriteString(line + "\n")
	}
	path := write(t, "poison.jsonl", []byte(data.String()))
	publisher(t, c, "publish", "--run", "r", path)

	// As a Deployment does: whoever dies is replaced.
	deaths := 0
	var last *cluster.Process
	for deaths < 10 {
		last = startWorker(t, c)
		alive, died := context.WithCancel(ctx(t))
		go func() {
			<-last.Exited()
			died()
		}()
		if _, err := c.WaitStatus(alive, "r", complete); err == nil {
			break
		}
		if last.Running() {
			t.Fatal("the run is neither complete nor is its worker dead")
		}
		deaths++
	}
	if deaths != 4 || !last.Running() {
		t.Errorf("%d workers died, want 4: in two batches, and twice alone", deaths)
	}
	waitStatus(t, c, complete)
	rows := export(t, c, "r")
	if b := rows["b"]; b.Status != "FAILED" || b.ErrorClass != "runner_crash" || !strings.Contains(b.ErrorMessage, "died 2 times") {
		t.Errorf("b: got %+v, want FAILED by runner_crash with the number of deaths", b)
	}
	for id, want := range map[string]string{"a": `{"square":4}`, "c": `{"square":9}`} {
		if r := rows[id]; r.Status != "OK" || string(r.Output) != want {
			t.Errorf("%s: got %s %s, want OK %s", id, r.Status, r.Output, want)
		}
	}
	publisher(t, c, "verify", "--run", "r", path)
}
