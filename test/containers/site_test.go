package containers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

const project = "demo"

// connect returns the Docker engine, or skips the test without one.
func connect(t *testing.T) *testcontainers.DockerProvider {
	t.Helper()
	engine, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	if err == nil {
		err = engine.Health(t.Context())
	}
	if err == nil {
		t.Cleanup(func() { engine.Close() })
		return engine
	}
	reason := strings.ReplaceAll(err.Error(), "\n", "; ")
	if os.Getenv("SPOTBATCH_TEST_REQUIRE_DOCKER") == "1" {
		t.Fatalf("no Docker engine answers; start one, such as with scripts/dockerd.sh: %s", reason)
	}
	t.Skipf("no Docker engine answers; start one, such as with scripts/dockerd.sh: %s", reason)
	return nil
}

// site is a network with the cloud's services on it, and what the containers of
// publisher and workers have in common. All that is started on it is removed
// when the test that started it ends.
type site struct {
	engine  *testcontainers.DockerProvider
	images  images
	network string
	env     map[string]string
}

func newSite(t *testing.T, engine *testcontainers.DockerProvider) *site {
	t.Helper()
	s := &site{engine: engine, images: buildImages(t, engine), env: map[string]string{
		"SPOTBATCH_PROJECT":                  project,
		"SPOTBATCH_PUBSUB_TOPIC":             "items",
		"SPOTBATCH_PUBSUB_SUBSCRIPTION":      "items-workers",
		"SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC": "items-dead",
		"SPOTBATCH_SPANNER_DATABASE":         "projects/" + project + "/instances/spotbatch/databases/spotbatch",
		// The shortest lease: what a killed worker held is back after it.
		"SPOTBATCH_PULL_LEASE": "10s",
	}}
	nw, err := network.New(t.Context())
	if err != nil {
		t.Fatalf("create network: %v", err)
	}
	testcontainers.CleanupNetwork(t, nw)
	s.network = nw.Name
	s.startCloud(t)
	return s
}

// run starts a container that may do nothing but compute and talk to the
// network, where others find it under its name. It returns when the wait
// strategy among the options is content.
func (s *site) run(t *testing.T, image, name string, opts ...testcontainers.ContainerCustomizer) *testcontainers.DockerContainer {
	t.Helper()
	return s.runFree(t, image, name, append(opts, testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
		host.ReadonlyRootfs = true
		host.CapDrop = []string{"ALL"}
		host.SecurityOpt = []string{"no-new-privileges"}
	}))...)
}

// runFree is run for images that need to do more.
func (s *site) runFree(t *testing.T, image, name string, opts ...testcontainers.ContainerCustomizer) *testcontainers.DockerContainer {
	t.Helper()
	ctr, err := testcontainers.Run(t.Context(), image, append(opts,
		testcontainers.WithLogger(log.NewNoopLogger()),
		network.WithNetworkName([]string{name}, s.network))...)
	// Also what did not come up is to be removed.
	testcontainers.CleanupContainer(t, ctr, testcontainers.StopTimeout(0))
	if err != nil && ctr == nil {
		t.Fatalf("start container %s: %v", name, err)
	}
	if err != nil {
		t.Fatalf("start container %s: %v\n%s", name, err, s.logs(t, ctr))
	}
	return ctr
}

// showLogs shows the container's logs when the test has failed.
func (s *site) showLogs(t *testing.T, name string, ctr *testcontainers.DockerContainer) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, s.logs(t, ctr))
		}
	})
}

// logs returns what the container wrote to stderr, and to stdout before it.
func (s *site) logs(t *testing.T, ctr *testcontainers.DockerContainer) string {
	t.Helper()
	stdout, stderr := s.output(t, ctr)
	return stdout + stderr
}

func (s *site) output(t *testing.T, ctr *testcontainers.DockerContainer) (stdout, stderr string) {
	t.Helper()
	// Logs are also wanted when the test's own context is over.
	ctx := context.WithoutCancel(t.Context())
	stream, err := s.engine.Client().ContainerLogs(ctx, ctr.GetContainerID(), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatalf("open the logs of a container: %v", err)
	}
	defer stream.Close()
	var out, errs bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &errs, stream); err != nil {
		t.Fatalf("read the logs of a container: %v", err)
	}
	return out.String(), errs.String()
}

// exit is how a container ended.
type exit struct {
	Code      int
	OOMKilled bool
	Error     string
}

func exitOf(t *testing.T, ctr *testcontainers.DockerContainer) exit {
	t.Helper()
	state, err := ctr.State(t.Context())
	if err != nil {
		t.Fatalf("look at a container: %v", err)
	}
	if state.Running {
		t.Fatal("container is still running")
	}
	return exit{Code: state.ExitCode, OOMKilled: state.OOMKilled, Error: state.Error}
}

// publisherOK runs one publisher command in a container, which has to exit 0,
// and returns its stdout.
func (s *site) publisherOK(t *testing.T, args ...string) string {
	t.Helper()
	ctr := s.run(t, s.images.publisher, "publisher",
		testcontainers.WithCmd(args...),
		testcontainers.WithEnv(s.env),
		testcontainers.WithWaitStrategy(wait.ForExit().WithPollInterval(20*time.Millisecond).WithExitTimeout(time.Minute)))
	stdout, stderr := s.output(t, ctr)
	if got := exitOf(t, ctr); got != (exit{}) {
		t.Fatalf("publisher %s: %+v\n%s%s", strings.Join(args, " "), got, stdout, stderr)
	}
	// A run asks often: the containers are not kept until the end.
	if err := testcontainers.TerminateContainer(ctr); err != nil {
		t.Errorf("remove a publisher: %v", err)
	}
	return stdout
}

// status is what `publisher status -o json` prints, as far as it is looked at.
type status struct {
	RunID       string `json:"run_id"`
	State       string `json:"state"`
	Published   int64  `json:"published"`
	OK          int64  `json:"ok"`
	Failed      int64  `json:"failed"`
	Outstanding int64  `json:"outstanding"`
	Complete    bool   `json:"complete"`
}

func (s *site) status(t *testing.T, run string) status {
	t.Helper()
	text := s.publisherOK(t, "status", "--run", run, "-o", "json")
	var st status
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		t.Fatalf("status %q: %v", text, err)
	}
	return st
}

// waitStatus asks until want holds. Each question takes a container's start,
// which is pause enough.
func (s *site) waitStatus(t *testing.T, run string, want func(status) bool) status {
	t.Helper()
	const limit = time.Minute
	for end := time.Now().Add(limit); ; {
		st := s.status(t, run)
		if want(st) {
			return st
		}
		if time.Now().After(end) {
			t.Fatalf("run %s did not get there within %v: %+v", run, limit, st)
		}
	}
}

// environment is the site's with more.
func (s *site) environment(more map[string]string) map[string]string {
	env := maps.Clone(s.env)
	maps.Copy(env, more)
	return env
}
