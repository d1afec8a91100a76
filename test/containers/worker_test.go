package containers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const healthPort = "8081/tcp"

// worker is a worker in a container.
type worker struct {
	site *site
	name string
	ctr  *testcontainers.DockerContainer
}

// startWorker starts a worker and waits until it is ready.
func (s *site) startWorker(t *testing.T, name string) *worker {
	t.Helper()
	return s.start(t, name, "/readyz", "-sleep", perBatch.String())
}

// startLoadingWorker starts a worker whose model takes long to load, and waits
// until it is alive.
func (s *site) startLoadingWorker(t *testing.T, name string) *worker {
	t.Helper()
	return s.start(t, name, "/livez", "-ready-after", "5m")
}

// start starts a worker whose runner has the flags, and waits for an answer 200
// of the page.
func (s *site) start(t *testing.T, name, page string, flags ...string) *worker {
	t.Helper()
	command, err := json.Marshal(append([]string{"/runner"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	ctr := s.run(t, s.images.worker, name,
		testcontainers.WithEnv(s.environment(map[string]string{
			"POD_NAME":                 name,
			"SPOTBATCH_MODEL_KIND":     "command",
			"SPOTBATCH_MODEL_COMMAND":  string(command),
			"SPOTBATCH_BATCH_MAX_SIZE": "4",
		})),
		testcontainers.WithExposedPorts(healthPort),
		testcontainers.WithWaitStrategy(wait.ForHTTP(page).WithPort(healthPort).WithPollInterval(50*time.Millisecond)))
	s.showLogs(t, "worker "+name, ctr)
	return &worker{site: s, name: name, ctr: ctr}
}

// get returns the status code of a page of the worker's health server.
func (w *worker) get(t *testing.T, page string) int {
	t.Helper()
	base, err := w.ctr.PortEndpoint(t.Context(), healthPort, "http")
	if err != nil {
		t.Fatalf("find the health port of %s: %v", w.name, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+page, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("get %s of %s: %v", page, w.name, err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// stopped is the end of a worker that was asked to stop.
type stopped struct {
	exit exit
	took time.Duration
}

// stop is `docker stop`: SIGTERM, and SIGKILL (which would be exit code 137)
// when the grace is over.
func (w *worker) stop(t *testing.T, grace time.Duration) stopped {
	t.Helper()
	begin := time.Now()
	if err := w.ctr.Stop(t.Context(), &grace); err != nil {
		t.Fatalf("stop worker %s: %v", w.name, err)
	}
	return stopped{took: time.Since(begin), exit: exitOf(t, w.ctr)}
}

// kill is `docker kill`: SIGKILL.
func (w *worker) kill(t *testing.T) exit {
	t.Helper()
	if _, err := w.site.engine.Client().ContainerKill(t.Context(), w.ctr.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		t.Fatalf("kill worker %s: %v", w.name, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	if err := wait.ForExit().WaitUntilReady(ctx, w.ctr); err != nil {
		t.Fatalf("wait for the end of worker %s: %v", w.name, err)
	}
	return exitOf(t, w.ctr)
}

func (w *worker) logs(t *testing.T) string {
	t.Helper()
	return w.site.logs(t, w.ctr)
}
