package e2e_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// wantQuickEnd checks an end of a worker that holds nothing.
func wantQuickEnd(t *testing.T, w *cluster.Process, exit cluster.Exit) {
	t.Helper()
	if exit.Code != 0 || exit.Took > 2*time.Second {
		t.Errorf("exit %d after %s, want 0 within 2s\n%s", exit.Code, exit.Took, w.Log())
	}
}

func TestStopSoonAfterTheStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 20))
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			w := startWorker(t, c)
			// A machine that is short of CPU takes longer than this test to load
			// the program; until then the signal kills it, as it does any other.
			waitLine(t, w, "serving health")
			// The moment is what is tested, not something waited for.
			<-time.After(after)
			wantQuickEnd(t, w, stop(t, w, syscall.SIGTERM))
		})
	}
	// Nothing is held back: another worker gets all of it before any lease
	// could end.
	begin := time.Now()
	startWorker(t, c)
	waitStatus(t, c, complete)
	if took := time.Since(begin); took > 9*time.Second {
		t.Errorf("the items were complete after %s; a stopped worker held some", took)
	}
}

func TestStopDuringAModelLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv("-ready-after", "30s")...)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
		waitLine(t, w, "loading model")
		wantQuickEnd(t, w, stop(t, w, sig))
	}
}

// A second SIGTERM changes nothing: the batch inside the model still finishes.
func TestSecondSIGTERMChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv("-sleep", "1s")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 4))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	waitLine(t, w, "batch enters the model")
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitLine(t, w, "draining")
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 {
		t.Errorf("exit %d, want 0\n%s", exit.Code, w.Log())
	}
	if s, err := c.Status(ctx(t), "r"); err != nil || s.OK != 4 {
		t.Errorf("status after the drain: %+v, %v; want the batch that was in the model", s, err)
	}
}

// A second ctrl-C ends the worker at once, and says so.
func TestSecondInterruptStopsAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv("-sleep", "5s")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 4))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	waitLine(t, w, "batch enters the model")
	if err := w.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitLine(t, w, "draining")
	if exit := stop(t, w, syscall.SIGINT); exit.Code != 1 || exit.Took > time.Second {
		t.Errorf("exit %d after %s, want 1 at once", exit.Code, exit.Took)
	}
}

// A runner that never comes back holds nobody's messages and not the process.
func TestStuckRunnerDoesNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "1h"), "SPOTBATCH_DRAIN_TIMEOUT=4s")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 4))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	waitLine(t, w, "batch enters the model")
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 || exit.Took > 4*time.Second {
		t.Errorf("exit %d after %s, want 0 within drain.timeout (4s)\n%s", exit.Code, exit.Took, w.Log())
	}
	if s := itemsSubscription(t, c); s.Leased != 0 || s.Ready+s.Delayed != 4 {
		t.Errorf("after the drain: %+v, want all 4 given back", s)
	}
}

// A telemetry endpoint that takes everything and answers nothing costs the
// drain at most telemetry.flush_timeout.
func TestBlackHoleTelemetryDoesNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	hole, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	c := newCluster(t, baseEnv()...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 20))
	w := startWorker(t, c,
		"SPOTBATCH_TELEMETRY_TRACES=otlp", "SPOTBATCH_TELEMETRY_METRICS=otlp",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+hole.Addr().String())
	waitStatus(t, c, complete)
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 || exit.Took > 3*time.Second {
		t.Errorf("exit %d after %s, want 0 about 1s after the drain\n%s", exit.Code, exit.Took, w.Log())
	}
}

// Pub/Sub and Spanner that do not answer any more cannot hold the process.
func TestSilentCloudDoesNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, append(baseEnv("-sleep", "200ms"), "SPOTBATCH_DRAIN_TIMEOUT=4s")...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 200))
	w := startWorker(t, c, "SPOTBATCH_LOG_LEVEL=debug")
	waitLine(t, w, "batch enters the model")
	if err := c.Localcloud().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 || exit.Took > 4*time.Second {
		t.Errorf("exit %d after %s, want 0 within drain.timeout (4s)\n%s", exit.Code, exit.Took, w.Log())
	}
}
