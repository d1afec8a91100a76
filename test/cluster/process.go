package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is one running program in a process group of its own, so that a
// ctrl-C at the terminal reaches only who started it. Its output goes to a
// file.
type Process struct {
	Name    string
	LogPath string

	cmd    *exec.Cmd
	exited chan struct{}
	mu     sync.Mutex
	exit   Exit
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code; -1 when a signal killed it.
	Code int
	// Signal is the one that killed it; 0 when it exited by itself.
	Signal syscall.Signal
	// Took is the time from Signal or Stop to the end.
	Took time.Duration
}

// start runs a program whose stdout is given and whose stderr goes to logPath.
func start(name, logPath string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer log.Close() //nolint:errcheck // the process writes through its own copy
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, LogPath: logPath, cmd: cmd, exited: make(chan struct{})}
	go p.reap()
	return p, nil
}

// reap waits for the end of the process.
func (p *Process) reap() {
	err := p.cmd.Wait()
	var end Exit
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		end.Code = exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			end.Signal = status.Signal()
		}
	}
	p.mu.Lock()
	p.exit = end
	p.mu.Unlock()
	close(p.exited)
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit is how it ended, without Took; valid once Exited is closed.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Signal sends sig to the process alone, not to its group.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop sends sig and waits for the end.
func (p *Process) Stop(ctx context.Context, sig syscall.Signal) (Exit, error) {
	begin := time.Now()
	if err := p.Signal(sig); err != nil {
		return Exit{}, err
	}
	return p.wait(ctx, begin)
}

// Wait waits for the end.
func (p *Process) Wait(ctx context.Context) (Exit, error) { return p.wait(ctx, time.Now()) }

func (p *Process) wait(ctx context.Context, begin time.Time) (Exit, error) {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for the end of %s: %w", p.Name, context.Cause(ctx))
	}
	exit := p.Exit()
	exit.Took = time.Since(begin)
	return exit, nil
}

// kill ends the process and its group, whatever state they are in.
func (p *Process) kill() {
	// The group outlives its leader when a child of it is still there.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// Log returns what the process has written to stderr so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
