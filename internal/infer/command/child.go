package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spotbatch/spotbatch/internal/worker"
)

const (
	// stopStep is the time between the end of input, SIGTERM and SIGKILL.
	stopStep = time.Second
	// killWait is the time that a killed process gets to vanish. One that is
	// stuck in a device driver does not, and must not hold up the drain.
	killWait = 2 * time.Second
	// lastWords is the time in which what a dead child wrote is still read,
	// should a process that left its group hold the pipe open.
	lastWords = 500 * time.Millisecond
	// maxLine is the longest answer, in bytes; it bounds what a runaway child
	// costs.
	maxLine = 256 << 20
)

// child is one process of the runner's program with its pipes.
//
// One goroutine at a time may call awaitReady, exchange; the others are safe
// for concurrent use.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader // of stdout
	stderr *stderrLog
	log    *slog.Logger
	said   ready // set by awaitReady

	answered atomic.Bool   // a batch was answered
	exited   chan struct{} // closed when the process is reaped and its group gone

	mu      sync.Mutex
	reaped  bool  // the process ID is no longer ours to signal
	busy    bool  // somebody reads and writes the streams
	broken  bool  // the streams are out of step or closed
	killed  error // why we killed it; nil when we did not
	waitErr error // of Wait; valid once exited is closed
}

// startChild starts cmd with pipes. The child must be stopped or killed.
func startChild(cmd *exec.Cmd, starts *spawner, log *slog.Logger) (*child, error) {
	var files []*os.File
	pipe := func() (r, w *os.File, err error) {
		r, w, err = os.Pipe()
		files = append(files, r, w)
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	errR, errW, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
		if err = starts.start(cmd); err != nil {
			err = unusable(cmd.Path, err)
		}
	}
	if err != nil {
		closeAll(files...)
		return nil, err
	}
	closeAll(inR, outW, errW)
	log = log.With("runner_pid", cmd.Process.Pid)
	c := &child{
		cmd: cmd, stdin: inW, stdout: outR, lines: bufio.NewReaderSize(outR, 64<<10),
		stderr: newStderrLog(log), log: log, exited: make(chan struct{}),
	}
	go c.reap(errR) // ends with the process; stop and kill wait for it
	return c, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// reap copies stderr to the log until the process has ended, then ends the
// rest of its group: what a runner leaves behind would go on holding the
// device.
func (c *child) reap(stderr *os.File) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.stderr.copy(stderr)
	}()
	awaitExit(c.cmd.Process)
	c.mu.Lock()
	c.signal(syscall.SIGKILL)
	c.waitErr = c.cmd.Wait() // returns at once: the process has ended
	c.reaped = true
	if c.killed == nil {
		_ = c.stdout.SetReadDeadline(time.Now().Add(lastWords))
	}
	_ = c.stdin.SetWriteDeadline(time.Unix(0, 1))
	c.mu.Unlock()

	_ = stderr.SetReadDeadline(time.Now().Add(lastWords))
	<-drained
	_ = stderr.Close()
	close(c.exited)
	c.release()
}

// release closes the streams once the process is gone and nobody uses them: an
// answer that was written just before the end is still read.
func (c *child) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped && !c.busy {
		closeAll(c.stdin, c.stdout)
	}
}

func (c *child) setBusy(busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = busy
}

// signal sends sig to the group; mu is held.
func (c *child) signal(sig syscall.Signal) {
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, sig)
	}
}

// kill ends the group at once, and whatever waits for the child's streams. It
// does not wait for the processes to vanish.
func (c *child) kill(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed == nil {
		c.killed = why
	}
	c.interrupt()
	c.signal(syscall.SIGKILL)
}

// end is kill, and waits for the processes to vanish, within reason.
func (c *child) end(why error) {
	c.kill(why)
	select {
	case <-c.exited:
	case <-time.After(killWait):
	}
}

// interrupt makes reads and writes of the streams return; mu is held.
func (c *child) interrupt() {
	c.broken = true
	past := time.Unix(0, 1)
	_ = c.stdin.SetWriteDeadline(past)
	_ = c.stdout.SetReadDeadline(past)
}

// stop ends the child in order: end of input, SIGTERM, SIGKILL.
func (c *child) stop() error {
	c.mu.Lock()
	if c.killed == nil {
		c.killed = errClosed
	}
	c.interrupt()
	_ = c.stdin.Close()
	c.mu.Unlock()
	for _, step := range []struct {
		wait time.Duration
		then syscall.Signal
	}{{stopStep, syscall.SIGTERM}, {stopStep, syscall.SIGKILL}} {
		select {
		case <-c.exited:
			return nil
		case <-time.After(step.wait):
			c.mu.Lock()
			c.signal(step.then)
			c.mu.Unlock()
		}
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("stop runner: process %d does not end after SIGKILL", c.cmd.Process.Pid)
	}
}

// usable reports whether the child can take a batch, as far as one can tell.
func (c *child) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.broken && !c.reaped
}

// awaitReady reads the child's first line. On an error the child must be ended.
func (c *child) awaitReady(ctx context.Context) error {
	line, err := c.converse(ctx, nil)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if c.said, err = parseReady(line); err != nil {
		return err
	}
	return c.unasked()
}

// exchange sends a batch and returns the answer. The child is killed when its
// streams can no longer be trusted, whatever is returned.
func (c *child) exchange(ctx context.Context, id string, batch []worker.Input) ([]worker.Output, error) {
	message, err := encodeBatch(id, batch)
	if err != nil {
		return nil, err
	}
	line, err := c.converse(ctx, message)
	switch {
	case worker.ClassOf(err, "") != "":
		return nil, err
	case err != nil:
		return nil, worker.Fail(worker.ClassRunnerCrash, err)
	}
	outs, inStep, err := parseReply(line, id)
	if !inStep {
		c.kill(err)
		return nil, err
	}
	if err := c.unasked(); err != nil {
		c.kill(err)
	}
	c.answered.Store(true)
	return outs, err
}

// unasked returns an error when the child has written more than was asked for:
// the next answer would be taken from it.
func (c *child) unasked() error {
	rest, _ := c.lines.Peek(c.lines.Buffered())
	if rest = bytes.TrimSpace(rest); len(rest) > 0 {
		return fmt.Errorf("%w: it wrote %s after its answer; standard output is for the protocol, print to standard error", errUnusable, excerpt(rest))
	}
	return nil
}

// converse writes message and reads one line. When ctx ends, or the streams
// break, the child is killed.
func (c *child) converse(ctx context.Context, message []byte) ([]byte, error) {
	c.setBusy(true)
	defer c.release()
	defer c.setBusy(false)
	onEnd := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	line, err := c.writeRead(message)
	if !onEnd() {
		// Not left to the function's own goroutine, which could be late enough
		// to hit the next batch.
		c.kill(context.Cause(ctx))
	}
	return line, err
}

func (c *child) writeRead(message []byte) ([]byte, error) {
	if len(message) > 0 {
		if _, err := c.stdin.Write(message); err != nil {
			return nil, c.crash("write batch", err)
		}
	}
	for {
		line, err := readLine(c.lines, maxLine)
		switch {
		case errors.Is(err, errLongLine):
			err = worker.Fail(worker.ClassProtocolError, err)
			c.kill(err)
			return nil, err
		case err != nil:
			return nil, c.crash("read answer", err)
		case len(bytes.TrimSpace(line)) > 0:
			return line, nil
		}
	}
}

// crash makes an error of a broken stream. A child that is ending gets a
// moment to do so, for its exit status; one that has closed its output but
// lives on is of no use and is killed.
func (c *child) crash(doing string, err error) error {
	c.mu.Lock()
	killed := c.killed
	c.broken = true
	c.mu.Unlock()
	if killed != nil {
		return fmt.Errorf("%s: runner was killed: %w", doing, killed)
	}
	select {
	case <-c.exited:
	case <-time.After(lastWords):
		c.end(fmt.Errorf("%s: %w", doing, err))
	}
	select {
	case <-c.exited:
		return c.reason()
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// reason says why the child ended; exited must be closed.
func (c *child) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := "exit status 0"
	if c.waitErr != nil {
		why = c.waitErr.Error()
	}
	state := c.cmd.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		if c.killed != nil {
			return fmt.Errorf("runner was killed: %w", c.killed)
		}
		why += " (the kernel does that when memory runs out)"
	}
	if last := c.stderr.last(); last != "" {
		return fmt.Errorf("runner ended: %s: %s", why, last)
	}
	return fmt.Errorf("runner ended: %s", why)
}
