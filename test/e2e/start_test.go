package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// retried is the log line of each try of the start that failed.
const retried = "not ready yet; trying again"

// addFault adds a fault to the cluster's localcloud.
func addFault(t *testing.T, c *cluster.Cluster, rule string) {
	t.Helper()
	for _, entry := range c.Env() {
		addr, found := strings.CutPrefix(entry, "LOCALCLOUD_ADMIN_HOST=")
		if !found {
			continue
		}
		req, err := http.NewRequestWithContext(ctx(t), http.MethodPost, "http://"+addr+"/faults", strings.NewReader(rule))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("fault %s: %d %s %v", rule, resp.StatusCode, text, err)
		}
		return
	}
	t.Fatal("localcloud has no admin address")
}

// wantWaiting checks that a worker is alive and not ready, and that it says what
// it waits for.
func wantWaiting(t *testing.T, w *cluster.Process, what string) {
	t.Helper()
	addr := waitLine(t, w, "serving health")["addr"]
	if code, text := get(t, addr, "/livez"); code != http.StatusOK {
		t.Errorf("/livez during the start: %d %s, want 200", code, text)
	}
	if code, _ := get(t, addr, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz during the start: %d, want 503", code)
	}
	for {
		waitLine(t, w, retried)
		for _, line := range w.Lines(retried) {
			if line["what"] == what {
				if line["error"] == "" || line["next_try_in"] == "" {
					t.Errorf("a failed try without error or next try: %v", line)
				}
				return
			}
		}
		if ctx(t).Err() != nil {
			t.Fatalf("no line about %s", what)
		}
	}
}

// wantWork publishes a run and waits until the worker has done it.
func wantWork(t *testing.T, c *cluster.Cluster, run string) {
	t.Helper()
	publisher(t, c, "publish", "--run", run, numbers(t, 20))
	if _, err := c.WaitStatus(ctx(t), run, complete); err != nil {
		t.Fatal(err)
	}
	wantSquares(t, c, run, 20)
}

// Credentials and permissions that come late are waited for.
func TestWorkerWaitsForItsCredentials(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	publisher(t, c, "publish", "--run", "r", numbers(t, 20))
	for _, rule := range []string{
		`{"method": "GetSubscription", "code": "UNAUTHENTICATED", "count": 3}`,
		`{"method": "CreateSession", "code": "UNAUTHENTICATED", "count": 2}`,
		`{"service": "Spanner", "method": "StreamingRead", "code": "PERMISSION_DENIED", "count": 3}`,
		`{"method": "StreamingPull", "code": "PERMISSION_DENIED", "count": 4}`,
	} {
		addFault(t, c, rule)
	}
	w := startWorker(t, c)
	wantWaiting(t, w, "Pub/Sub")
	wantWaiting(t, w, "Spanner")
	waitReady(t, w)
	waitStatus(t, c, complete)
	wantSquares(t, c, "r", 20)
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 {
		t.Errorf("exit %d\n%s", exit.Code, w.Log())
	}
}

// lateCloud is an address at which nothing listens before open.
type lateCloud struct {
	addr string
	to   string

	mu    sync.Mutex
	conns []net.Conn
}

// lateAddrs makes the cluster's services reachable at addresses of their own,
// once open is called.
func lateAddrs(t *testing.T, c *cluster.Cluster) (env []string, open func()) {
	t.Helper()
	var clouds []*lateCloud
	for _, entry := range c.Env() {
		name, to, _ := strings.Cut(entry, "=")
		if name != "PUBSUB_EMULATOR_HOST" && name != "SPANNER_EMULATOR_HOST" {
			continue
		}
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &lateCloud{addr: free.Addr().String(), to: to}
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		clouds = append(clouds, l)
		env = append(env, name+"="+l.addr)
	}
	return env, func() {
		for _, l := range clouds {
			l.open(t)
		}
	}
}

func (l *lateCloud) open(t *testing.T) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	pipes.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).Dial("tcp", l.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, from, to)
			l.mu.Unlock()
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				pipes.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // ends with either
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for _, conn := range l.conns {
			_ = conn.Close()
		}
		l.mu.Unlock()
		pipes.Wait()
	})
}

func TestWorkerWaitsForTheCloud(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	env, open := lateAddrs(t, c)
	w := startWorker(t, c, env...)
	wantWaiting(t, w, "Pub/Sub")
	wantWaiting(t, w, "Spanner")
	open()
	wantWork(t, c, "r")
}

// A session that is never made does not hold the worker for ever: it is given up
// after ten seconds, and the next check makes another.
func TestWorkerOutlivesASessionThatHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	addFault(t, c, `{"method": "CreateSession", "black_hole": true, "count": 1}`)
	begin := time.Now()
	w := startWorker(t, c)
	wantWaiting(t, w, "Spanner")
	if len(w.Lines("model ready")) == 0 {
		t.Errorf("the model was not loaded meanwhile:\n%s", w.Log())
	}
	waitReady(t, w)
	if took := time.Since(begin); took < 9*time.Second || took > 25*time.Second {
		t.Errorf("ready after %s, want soon after the 10s of the session", took)
	}
	wantWork(t, c, "r")
}

// What does not come in time ends the worker, with one line that says what.
func TestStartHasAnEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	away, _ := lateAddrs(t, c)
	for _, tt := range []struct {
		name string
		env  []string
		code int
		want []string
	}{
		{"no cloud", append(away, "SPOTBATCH_MODEL_START_TIMEOUT=3s"), 1, []string{"not ready within model.start_timeout (3s)", "no answer from "}},
		{
			"no driver",
			append(baseEnv("-driver", "/nonexistent/driver"), "SPOTBATCH_MODEL_START_TIMEOUT=3s"),
			1,
			[]string{"not ready within model.start_timeout (3s)", "runner: no driver: stat /nonexistent/driver"},
		},
		// Field case 4.10. No wait helps: the pod has to be replaced.
		{"no device", baseEnv("-no-device"), 3, []string{"device is broken: no CUDA-capable device is detected"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, c, tt.env...)
			exit, err := w.Wait(ctx(t))
			if err != nil {
				t.Fatal(err)
			}
			if exit.Code != tt.code || exit.Took > 6*time.Second {
				t.Errorf("exit %d after %s, want %d\n%s", exit.Code, exit.Took, tt.code, w.Log())
			}
			plain := plainLines(w)
			if len(plain) != 1 {
				t.Fatalf("stderr: want one line that is no log, got:\n%s", w.Log())
			}
			for _, part := range tt.want {
				if !strings.Contains(plain[0], part) {
					t.Errorf("%q is missing from: %s", part, plain[0])
				}
			}
		})
	}
}

// A runner whose driver comes late is started again until it is there.
func TestWorkerWaitsForItsRunner(t *testing.T) {
	t.Parallel()
	driver := filepath.Join(t.TempDir(), "driver")
	c := newCluster(t, baseEnv("-driver", driver)...)
	w := startWorker(t, c)
	wantWaiting(t, w, "model")
	if err := os.WriteFile(driver, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantWork(t, c, "r")
}

// A stop during the start is no failure and takes no time, whatever the start
// waits for.
func TestStopWhileTheStartWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	away, _ := lateAddrs(t, c)
	hole, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	silent := []string{
		"PUBSUB_EMULATOR_HOST=" + hole.Addr().String(), "SPANNER_EMULATOR_HOST=" + hole.Addr().String(),
		"SPOTBATCH_TELEMETRY_TRACES=otlp", fmt.Sprintf("OTEL_EXPORTER_OTLP_ENDPOINT=http://%s", hole.Addr()),
	}
	for name, env := range map[string][]string{"nothing listens": away, "nothing answers": silent} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, c, env...)
			waitLine(t, w, "model ready")
			wantQuickEnd(t, w, stop(t, w, syscall.SIGTERM))
		})
	}
}
