// Package e2e_test runs spotbatch as its users do: real processes, real
// signals, a localcloud between them. Each test has a cloud of its own.
package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "spotbatch-e2e-")
	if err == nil {
		bin = dir
		err = build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code) //nolint:forbidigo // TestMain is this program's main
}

// crashWorker is the worker that can be told where to die.
const crashWorker = "worker-crashpoints"

// build makes the programs under test.
func build(dir string) error {
	return errors.Join(
		goBuild(dir, "./cmd/worker", "./cmd/publisher", "./cmd/localcloud", "./test/runner"),
		goBuild(filepath.Join(dir, crashWorker), "-tags", "crashpoints", "./cmd/worker"))
}

func goBuild(output string, rest ...string) error {
	args := []string{"build", "-o", output}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, rest...)...)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// root is the top of the repository.
func root() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

// baseEnv configures everything by variables alone: a command runner with the
// flags of test/runner.
func baseEnv(runnerFlags ...string) []string {
	command, err := json.Marshal(append([]string{filepath.Join(bin, "runner")}, runnerFlags...))
	if err != nil {
		panic(err)
	}
	return []string{
		"SPOTBATCH_PROJECT=demo",
		"SPOTBATCH_PUBSUB_TOPIC=items",
		"SPOTBATCH_PUBSUB_SUBSCRIPTION=items-workers",
		"SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC=items-dead",
		"SPOTBATCH_SPANNER_DATABASE=projects/demo/instances/spotbatch/databases/spotbatch",
		"SPOTBATCH_MODEL_KIND=command",
		"SPOTBATCH_MODEL_COMMAND=" + string(command),
		"SPOTBATCH_PULL_LEASE=10s",
		// Nothing of Google's real cloud is to be found by accident.
		"GOOGLE_APPLICATION_CREDENTIALS=/nonexistent",
		"HOME=/nonexistent",
	}
}

// newCluster starts a localcloud with topic, subscriptions and tables.
func newCluster(t *testing.T, env ...string) *cluster.Cluster {
	t.Helper()
	return startCluster(t, cluster.Options{Env: env})
}

// startCluster is newCluster for any options.
func startCluster(t *testing.T, opts cluster.Options) *cluster.Cluster {
	t.Helper()
	opts.Bin, opts.Dir, opts.WorkDir = bin, t.TempDir(), root()
	// Programs with the race detector would wait a second at their end.
	opts.Env = append(opts.Env, "GORACE=atexit_sleep_ms=0 halt_on_error=1")
	c, err := cluster.Start(ctx(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	publisher(t, c, "setup")
	return c
}

// ctx ends before the test binary's own limit, so that a test that hangs says
// where.
func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, fmt.Errorf("%s took longer than 3 minutes", t.Name()))
	t.Cleanup(cancel)
	return c
}

// publisher runs a publisher command that must exit 0.
func publisher(t *testing.T, c *cluster.Cluster, args ...string) []byte {
	t.Helper()
	out, err := c.MustPublisher(ctx(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func startWorker(t *testing.T, c *cluster.Cluster, env ...string) *cluster.Process {
	t.Helper()
	w, err := c.StartWorker(env...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func stop(t *testing.T, p *cluster.Process, sig syscall.Signal) cluster.Exit {
	t.Helper()
	exit, err := p.Stop(ctx(t), sig)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

func waitLine(t *testing.T, p *cluster.Process, message string) map[string]any {
	t.Helper()
	line, err := p.WaitLine(ctx(t), message)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// waitStatus waits for a state of the run r.
func waitStatus(t *testing.T, c *cluster.Cluster, want func(cluster.Status) bool) cluster.Status {
	t.Helper()
	s, err := c.WaitStatus(ctx(t), "r", want)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func complete(s cluster.Status) bool { return s.Complete }

// write makes a file and returns its path.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// numbers is a dataset of n JSON rows {"id":"i7","n":7}.
func numbers(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":\"i%d\",\"n\":%d}\n", i, i)
	}
	return write(t, "numbers.jsonl", []byte(b.String()))
}

// row is a line of export.
type row struct {
	ItemID       string          `json:"item_id"`
	Status       string          `json:"status"`
	Output       json.RawMessage `json:"output"`
	ErrorClass   string          `json:"error_class"`
	ErrorMessage string          `json:"error_message"`
	ModelVersion string          `json:"model_version"`
	Worker       string          `json:"worker"`
}

// export returns the rows of a run by item.
func export(t *testing.T, c *cluster.Cluster, run string) map[string]row {
	t.Helper()
	rows := make(map[string]row)
	for line := range strings.Lines(string(publisher(t, c, "export", "--run", run, "-o", "jsonl"))) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("exported line %q: %v", line, err)
		}
		if _, twice := rows[r.ItemID]; twice {
			t.Errorf("item %s was exported twice", r.ItemID)
		}
		rows[r.ItemID] = r
	}
	return rows
}

// wantSquares checks that the run has the right row for each of n numbers.
func wantSquares(t *testing.T, c *cluster.Cluster, run string, n int) {
	t.Helper()
	checkSquares(t, export(t, c, run), n)
}

// checkSquares checks that rows are the right ones for n numbers.
func checkSquares(t *testing.T, rows map[string]row, n int) {
	t.Helper()
	if len(rows) != n {
		t.Errorf("%d rows were exported, want %d", len(rows), n)
	}
	for i := range n {
		r := rows[fmt.Sprintf("i%d", i)]
		if want := fmt.Sprintf(`{"square":%d}`, i*i); r.Status != "OK" || string(r.Output) != want {
			t.Errorf("item i%d: got %s %s, want OK %s", i, r.Status, r.Output, want)
		}
	}
}
