// Package cluster runs spotbatch as a user would, in real processes on one
// machine: localcloud, publisher commands and workers. The demo and the
// end-to-end tests stand on it.
package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyTimeout is how long localcloud or a worker may take to be ready. They
// take well under a second; a machine that builds beside them is slow.
const readyTimeout = time.Minute

// Options say where things are.
type Options struct {
	// Bin is the folder with worker, publisher and localcloud.
	Bin string
	// Dir is where logs go; it must exist.
	Dir string
	// Dir of the processes; empty means this process's own.
	WorkDir string
	// Config is the file that publisher and workers get with --config; none
	// when empty.
	Config string
	// Env is added to this process's environment for publisher and workers.
	Env []string
}

// Cluster is a localcloud and what works against it. Make it with Start, end
// it with Close. Its methods may be called by several goroutines.
type Cluster struct {
	opts Options
	env  []string

	local *Process

	mu        sync.Mutex
	processes []*Process
	workers   int
}

// Start starts localcloud on free ports and waits until it is ready.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c := &Cluster{opts: opts}
	out, in := io.Pipe()
	cmd := exec.Command(filepath.Join(opts.Bin, "localcloud"),
		"--pubsub", "127.0.0.1:0", "--spanner", "127.0.0.1:0", "--gcs", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Dir = opts.WorkDir
	cmd.Stdout = in
	local, err := c.launch("localcloud", cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-local.Exited()
		_ = in.Close() // never fails
	}()

	type ready struct {
		env []string
		err error
	}
	got := make(chan ready, 1)
	go func() {
		env, err := readEnv(out)
		got <- ready{env, err}
		// Whatever it prints later is not kept.
		_, _ = io.Copy(io.Discard, out)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case r := <-got:
		if r.err != nil {
			c.Close()
			return nil, fmt.Errorf("start localcloud: %w\n%s", r.err, local.Log())
		}
		c.env, c.local = r.env, local
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("start localcloud: %w\n%s", context.Cause(ctx), local.Log())
	}
}

// Join makes a cluster around services that run already; env is the
// environment in which clients find them.
func Join(opts Options, env []string) *Cluster { return &Cluster{opts: opts, env: env} }

// readEnv reads NAME=value lines, with or without "export", until "ready".
func readEnv(r io.Reader) ([]string, error) {
	var env []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export ")
		if line == "ready" {
			return env, nil
		}
		if strings.Contains(line, "=") {
			env = append(env, line)
		}
	}
	return nil, errors.Join(errors.New("it ended before it was ready"), lines.Err())
}

// Env is the environment in which clients find this localcloud.
func (c *Cluster) Env() []string { return c.env }

// Localcloud is the process of the local services, for tests that break it;
// nil after Join.
func (c *Cluster) Localcloud() *Process { return c.local }

// environ is the environment of a process of the cluster: later entries win.
func (c *Cluster) environ(extra []string) []string {
	env := os.Environ()
	env = append(env, c.env...)
	// Publishers of two clusters are not to meet in the user's cache.
	if dir, err := filepath.Abs(c.opts.Dir); err == nil {
		env = append(env, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	}
	env = append(env, c.opts.Env...)
	return append(env, extra...)
}

func (c *Cluster) launch(name string, cmd *exec.Cmd) (*Process, error) {
	p, err := start(name, filepath.Join(c.opts.Dir, name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}

// Output is what one publisher command printed.
type Output struct {
	Code   int
	Stdout []byte
	Stderr []byte
}

// Publisher runs one publisher command to its end. A code other than 0 is no
// error.
func (c *Cluster) Publisher(ctx context.Context, args ...string) (Output, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Bin, "publisher"), c.withConfig(args)...)
	cmd.Dir = c.opts.WorkDir
	cmd.Env = c.environ(nil)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Output{}, fmt.Errorf("publisher %s: %w", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		return Output{}, context.Cause(ctx)
	}
	return Output{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

// StartPublisher starts one publisher command, whose output goes to the
// process's log.
func (c *Cluster) StartPublisher(args ...string) (*Process, error) {
	cmd := exec.Command(filepath.Join(c.opts.Bin, "publisher"), c.withConfig(args)...)
	cmd.Dir = c.opts.WorkDir
	cmd.Env = c.environ(nil)
	return c.launch("publisher", cmd)
}

// MustPublisher is Publisher for commands that have to exit 0.
func (c *Cluster) MustPublisher(ctx context.Context, args ...string) ([]byte, error) {
	out, err := c.Publisher(ctx, args...)
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, fmt.Errorf("publisher %s: exit %d: %s", strings.Join(args, " "), out.Code, bytes.TrimSpace(out.Stderr))
	}
	return out.Stdout, nil
}

func (c *Cluster) withConfig(args []string) []string {
	if c.opts.Config == "" {
		return args
	}
	return append(slices.Clip(args), "--config", c.opts.Config)
}

// Status is what `publisher status -o json` prints.
type Status struct {
	RunID          string  `json:"run_id"`
	State          string  `json:"state"`
	Published      int64   `json:"published"`
	OK             int64   `json:"ok"`
	Failed         int64   `json:"failed"`
	Outstanding    int64   `json:"outstanding"`
	Complete       bool    `json:"complete"`
	ItemsPerSecond float64 `json:"items_per_second"`
}

// Status asks for the state of a run.
func (c *Cluster) Status(ctx context.Context, run string) (Status, error) {
	var s Status
	out, err := c.MustPublisher(ctx, "status", "--run", run, "-o", "json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("read status %q: %w", out, err)
	}
	return s, nil
}

// WaitStatus polls the status of a run until want holds.
func (c *Cluster) WaitStatus(ctx context.Context, run string, want func(Status) bool) (Status, error) {
	for {
		s, err := c.Status(ctx, run)
		if err != nil || want(s) {
			return s, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return s, fmt.Errorf("wait for run %s (%+v): %w", run, s, err)
		}
	}
}

// pause waits for d, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// StartWorker starts `worker run` with more environment than the cluster's
// own. It does not wait until the worker is ready.
func (c *Cluster) StartWorker(env ...string) (*Process, error) {
	return c.StartWorkerBuild("worker", env...)
}

// StartWorkerBuild is StartWorker for another build of the worker in Bin.
func (c *Cluster) StartWorkerBuild(program string, env ...string) (*Process, error) {
	c.mu.Lock()
	c.workers++
	name := fmt.Sprintf("worker-%d", c.workers)
	c.mu.Unlock()
	cmd := exec.Command(filepath.Join(c.opts.Bin, program), c.withConfig([]string{"run"})...)
	cmd.Dir = c.opts.WorkDir
	cmd.Env = c.environ(append([]string{
		"POD_NAME=" + name,
		"SPOTBATCH_LOG_FORMAT=json",
		// Several workers share this machine.
		"SPOTBATCH_HEALTH_ADDR=127.0.0.1:0",
		"SPOTBATCH_TELEMETRY_METRICS_ADDR=127.0.0.1:0",
	}, env...))
	return c.launch(name, cmd)
}

// logLine is a line of a worker's log.
type logLine map[string]any

// Lines returns the log lines with the message.
func (p *Process) Lines(message string) []map[string]any {
	var found []map[string]any
	for text := range strings.Lines(p.Log()) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// WaitLine waits until the log has a line with the message, and returns the
// first.
func (p *Process) WaitLine(ctx context.Context, message string) (map[string]any, error) {
	for {
		if lines := p.Lines(message); len(lines) > 0 {
			return lines[0], nil
		}
		if !p.Running() {
			return nil, fmt.Errorf("%s ended before it logged %q:\n%s", p.Name, message, p.Log())
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for %q in the log of %s: %w\n%s", message, p.Name, err, p.Log())
		}
	}
}

// Get fetches a page and returns its status and body.
func Get(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("get %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("get %s: %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read %s: %w", url, err)
	}
	return resp.StatusCode, string(body), nil
}

// Close kills everything that the cluster started and is still running.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		p.kill()
	}
	c.processes = nil
}
