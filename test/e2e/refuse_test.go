package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// What a worker cannot work with it refuses with one clear line and an exit
// code, and leaves nothing behind.
func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	missing := filepath.Join(t.TempDir(), "no.onnx")
	for _, tt := range []struct {
		name string
		env  []string
		code int
		want []string
	}{
		{
			"unknown key",
			[]string{"SPOTBATCH_PULL_MAX_OUTSTANDNG=5"},
			2,
			[]string{"SPOTBATCH_PULL_MAX_OUTSTANDNG", "did you mean SPOTBATCH_PULL_MAX_OUTSTANDING?"},
		},
		{"duration without a unit", []string{"SPOTBATCH_BATCH_MAX_WAIT=50"}, 2, []string{"batch.max_wait", `"50"`, "unit"}},
		{"drain that does not fit", []string{"SPOTBATCH_DRAIN_TIMEOUT=20s"}, 2, []string{"drain.timeout: 20s", "grace_period (15s)"}},
		{"no model kind", []string{"SPOTBATCH_MODEL_KIND=magic"}, 2, []string{"model.kind", "magic", "onnx, command"}},
		{"missing program", []string{`SPOTBATCH_MODEL_COMMAND=["no-such-program"]`}, 1, []string{"no-such-program"}},
		{"missing model file", []string{"SPOTBATCH_MODEL_KIND=onnx", "SPOTBATCH_MODEL_PATH=" + missing}, 1, []string{missing}},
		{
			"missing subscription",
			[]string{"SPOTBATCH_PUBSUB_SUBSCRIPTION=nope"},
			1,
			[]string{"projects/demo/subscriptions/nope does not exist", "publisher setup"},
		},
		{
			"missing database",
			[]string{"SPOTBATCH_SPANNER_DATABASE=projects/demo/instances/spotbatch/databases/nope"},
			1,
			[]string{"databases/nope", "publisher setup"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := tt.env
			if strings.Contains(strings.Join(env, " "), "=onnx") {
				env = append(env, onnxLibrary(t))
			}
			w := startWorker(t, c, env...)
			exit, err := w.Wait(ctx(t))
			if err != nil {
				t.Fatal(err)
			}
			if exit.Code != tt.code || exit.Took > 10*time.Second {
				t.Errorf("exit %d after %s, want %d", exit.Code, exit.Took, tt.code)
			}
			plain := plainLines(w)
			if len(plain) != 1 || !strings.HasPrefix(plain[0], "worker: ") {
				t.Fatalf("stderr: want one line that starts with \"worker: \", got:\n%s", w.Log())
			}
			for _, part := range tt.want {
				if !strings.Contains(plain[0], part) {
					t.Errorf("%q is missing from: %s", part, plain[0])
				}
			}
		})
	}
}

// plainLines are the lines of stderr that are no log.
func plainLines(w *cluster.Process) []string {
	var plain []string
	for line := range strings.Lines(w.Log()) {
		if !strings.HasPrefix(line, "{") {
			plain = append(plain, strings.TrimSpace(line))
		}
	}
	return plain
}
