package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spotbatch/spotbatch/internal/crash"
	"github.com/spotbatch/spotbatch/test/cluster"
)

// crashRun is the run of the tests in which workers die.
const crashRun = "crash"

// What each run of TestDiesAtEveryPoint has: some items are published twice.
const (
	crashItems    = 8
	crashTwins    = 3
	crashMessages = crashItems + crashTwins
)

// wreck is what a dead worker has left behind.
type wreck struct {
	// ran are the items that its model was asked for.
	ran int
	// stored are the rows that it wrote.
	stored int
	// acked and nacked say whether a message was, of those that it held.
	acked, nacked bool
}

// death is how a worker ends, and what is to be left.
type death struct {
	point crash.Point
	pass  int
	// drain: SIGTERM comes while half of the items are in the model and the
	// others wait for it.
	drain bool
	want  wreck
}

// name is that of its subtest.
func (d death) name() string {
	if d.drain && d.point != crash.DuringDrain {
		return "during_drain_" + string(d.point)
	}
	return string(d.point)
}

// A worker dies at each point of an item's path, and another one finishes the
// run. This is the table of docs/design.md, "Where it can die".
func TestDiesAtEveryPoint(t *testing.T) {
	t.Parallel()
	tests := []death{
		{point: crash.AfterReceive, pass: 3, want: wreck{}},
		{point: crash.AfterLookup, pass: 3, want: wreck{}},
		{point: crash.BeforeInfer, pass: 1, want: wreck{}},
		{point: crash.AfterInfer, pass: 1, want: wreck{ran: crashItems}},
		{point: crash.BeforeCommit, pass: 1, want: wreck{ran: crashItems}},
		{point: crash.AfterCommit, pass: 1, want: wreck{ran: crashItems, stored: crashItems}},
		{point: crash.BeforeAck, pass: 1, want: wreck{ran: crashItems, stored: crashItems}},
		{point: crash.AfterAck, pass: 1, want: wreck{ran: crashItems, stored: crashItems, acked: true}},
		{point: crash.DuringDrain, pass: 1, drain: true, want: wreck{ran: crashItems / 2}},
		{point: crash.BeforeNack, pass: 1, drain: true, want: wreck{ran: crashItems / 2}},
		{point: crash.AfterNack, pass: 1, drain: true, want: wreck{ran: crashItems / 2, nacked: true}},
		{point: crash.BeforeCommit, pass: 1, drain: true, want: wreck{ran: crashItems / 2, nacked: true}},
		{point: crash.AfterCommit, pass: 1, drain: true, want: wreck{ran: crashItems / 2, stored: crashItems / 2, nacked: true}},
	}
	for _, point := range crash.Points() {
		if !slices.ContainsFunc(tests, func(d death) bool { return d.point == point }) {
			t.Errorf("nobody dies at %s", point)
		}
	}
	// Nearly all of the time is spent waiting for leases to end. So all run at
	// the same time, whatever -parallel says, and only what takes the machine
	// is done by one after the other.
	machine := make(chan struct{}, 1)
	var group sync.WaitGroup
	for _, tt := range tests {
		group.Go(func() {
			t.Run(tt.name(), func(t *testing.T) { dieAndFinish(t, tt, machine) })
		})
	}
	group.Wait()
}

// dieAndFinish has one worker die and another one finish its run.
func dieAndFinish(t *testing.T, d death, machine chan struct{}) {
	release := acquire(machine)
	defer release()
	c := newCluster(t, append(baseEnv(), "SPOTBATCH_LOG_LEVEL=debug")...)
	data := numbers(t, crashItems)
	publisher(t, c, "publish", "--run", crashRun, data)
	publishAgain(t, c, crashRun, crashTwins, func(i int) int { return i })
	victim := startVictim(t, c, d)
	wantDeath(t, victim, d.point)
	wantWreck(t, c, victim, d.want)
	rescuer := startWorker(t, c)
	waitLine(t, rescuer, "model ready")
	release()

	waitAllAcked(t, c, crashMessages)
	defer acquire(machine)()
	rows := wantFinished(t, c, data, crashItems)
	// G4, to the item: what was stored does not run again, what was not does,
	// once.
	if got, want := modelRuns(t, rescuer), crashItems-d.want.stored; got != want {
		t.Errorf("the second worker's model ran for %d items, want %d", got, want)
	}
	if got := rowsOf(rows, victim); got != d.want.stored {
		t.Errorf("%d rows are the dead worker's, want %d: the others overwrote some", got, d.want.stored)
	}
}

// acquire waits for one of places; release, which may be called again, gives it
// back.
func acquire(places chan struct{}) (release func()) {
	places <- struct{}{}
	return sync.OnceFunc(func() { <-places })
}

// Four workers die at four places in the middle of a run, while a fifth is
// working beside them.
func TestDiesBesideAWorkingOne(t *testing.T) {
	t.Parallel()
	const items = 400
	c := newCluster(t, append(baseEnv("-sleep", "20ms"), "SPOTBATCH_LOG_LEVEL=debug", "SPOTBATCH_BATCH_MAX_SIZE=4")...)
	points := []crash.Point{crash.AfterLookup, crash.AfterInfer, crash.AfterCommit, crash.BeforeAck}
	survivor := startWorker(t, c)
	var victims []*cluster.Process
	for _, point := range points {
		victims = append(victims, startCrashWorker(t, c, fmt.Sprintf("%s:%d", point, 3)))
	}
	for _, w := range append(victims, survivor) {
		waitLine(t, w, "model ready")
	}
	data := numbers(t, items)
	publisher(t, c, "publish", "--run", crashRun, data)
	for i, victim := range victims {
		wantDeath(t, victim, points[i])
	}
	// Now, before a lease ends and a row could be overwritten.
	theirs := rowsOf(export(t, c, crashRun), victims...)
	waitAllAcked(t, c, items)
	wantFinished(t, c, data, items)
	if got, want := modelRuns(t, survivor), items-theirs; theirs == 0 || got != want {
		t.Errorf("the model of the worker that lived ran for %d items, want %d: the dead ones had stored %d", got, want, theirs)
	}
}

// Crash points are in no program that users run, and a misspelt one is no test
// that passes.
func TestCrashPointsAreOnlyInTheTestBuild(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]bool{"worker": false, crashWorker: true} {
		code, err := os.ReadFile(filepath.Join(bin, program))
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range []string{"spotbatch/internal/crash", "SPOTBATCH_TEST_CRASH"} {
			if got := bytes.Contains(code, []byte(trace)); got != want {
				t.Errorf("%s contains %q: %t, want %t", program, trace, got, want)
			}
		}
	}
	cmd := exec.CommandContext(ctx(t), filepath.Join(bin, crashWorker), "version")
	cmd.Env = append(os.Environ(), "SPOTBATCH_TEST_CRASH=after_comit:1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), `no crash point "after_comit"`) {
		t.Errorf("with a misspelt point: %v, %s; want exit 2 and a line about it", err, out)
	}
}

// startVictim starts a worker that dies as d says.
func startVictim(t *testing.T, c *cluster.Cluster, d death) *cluster.Process {
	t.Helper()
	at := fmt.Sprintf("%s:%d", d.point, d.pass)
	if !d.drain {
		// All items are one batch, however late the last of them comes.
		return startCrashWorker(t, c, at,
			fmt.Sprintf("SPOTBATCH_BATCH_MAX_SIZE=%d", crashItems), "SPOTBATCH_BATCH_MAX_WAIT=30s")
	}
	env := append(baseEnv("-sleep", "2s"), fmt.Sprintf("SPOTBATCH_BATCH_MAX_SIZE=%d", crashItems/2), "SPOTBATCH_BATCH_MAX_WAIT=30s",
		fmt.Sprintf("SPOTBATCH_PULL_MAX_OUTSTANDING=%d", 2*crashItems))
	victim := startCrashWorker(t, c, at, env...)
	waitLine(t, victim, "batch enters the model")
	if err := victim.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return victim
}

// startCrashWorker starts a worker that dies at a pass of a point: "POINT:PASS".
func startCrashWorker(t *testing.T, c *cluster.Cluster, at string, env ...string) *cluster.Process {
	t.Helper()
	w, err := c.StartWorkerBuild(crashWorker, append(env, "SPOTBATCH_TEST_CRASH="+at)...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wantDeath waits until w is dead, and checks that it died at the point.
func wantDeath(t *testing.T, w *cluster.Process, point crash.Point) {
	t.Helper()
	exit, err := w.Wait(ctx(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Log())
	}
	lines := w.Lines("crash point")
	if exit.Signal != syscall.SIGKILL || len(lines) != 1 || lines[0]["point"] != string(point) {
		t.Fatalf("%s ended with %+v, want by SIGKILL at %s\n%s", w.Name, exit, point, w.Log())
	}
}

// wantWreck checks what a worker left behind that held all messages.
func wantWreck(t *testing.T, c *cluster.Cluster, victim *cluster.Process, want wreck) {
	t.Helper()
	status, err := c.Status(ctx(t), crashRun)
	if err != nil {
		t.Fatal(err)
	}
	items := itemsSubscription(t, c)
	got := wreck{
		ran:    modelRuns(t, victim),
		stored: int(status.OK),
		acked:  items.Acked > 0,
		nacked: items.Ready+items.Delayed > 0,
	}
	if got != want {
		t.Errorf("the dead worker left %+v, want %+v; the subscription: %+v", got, want, items)
	}
	if n := items.Acked + items.Ready + items.Delayed + items.Leased; n != crashMessages {
		t.Errorf("%d messages are left or acked, want %d: %+v", n, crashMessages, items)
	}
}

// wantFinished checks that the run is complete and right, and that nothing of
// it is left anywhere. It returns the rows.
func wantFinished(t *testing.T, c *cluster.Cluster, data string, items int) map[string]row {
	t.Helper()
	s, err := c.Status(ctx(t), crashRun)
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(items); !s.Complete || s.OK != n || s.Failed != 0 || s.Outstanding != 0 || s.Published != n {
		t.Errorf("status: %+v, want %d published and ok", s, n)
	}
	publisher(t, c, "verify", "--run", crashRun, data)
	rows := export(t, c, crashRun)
	checkSquares(t, rows, items)
	for _, sub := range subscriptions(t, c) {
		switch {
		case sub.Leased+sub.Ready+sub.Delayed+sub.DeadLettered+sub.Dropped > 0:
			t.Errorf("messages are left, or went elsewhere: %+v", sub)
		case sub.Name != itemsSubscriptionName && sub.Published > 0:
			t.Errorf("dead letters: %+v", sub)
		}
	}
	return rows
}

// modelRuns is for how many items a worker's model was asked, the same item
// again included. The worker logs at debug.
func modelRuns(t *testing.T, w *cluster.Process) int {
	t.Helper()
	var n float64
	for _, line := range w.Lines("batch enters the model") {
		items, ok := line["items"].(float64)
		if !ok {
			t.Fatalf("no number of items in %v", line)
		}
		n += items
	}
	return int(n)
}

// rowsOf is how many of rows are these workers'.
func rowsOf(rows map[string]row, workers ...*cluster.Process) int {
	n := 0
	for _, r := range rows {
		if slices.ContainsFunc(workers, func(w *cluster.Process) bool { return w.Name == r.Worker }) {
			n++
		}
	}
	return n
}
