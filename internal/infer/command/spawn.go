package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// spawner starts processes from one OS thread that lives as long as they do.
//
// The kernel kills a child with Pdeathsig when the thread that forked it ends,
// not the process. Threads of the Go runtime do end, for instance with any
// locked goroutine that returns, so children must not be started from just any
// of them.
type spawner struct {
	requests chan spawnRequest
	stop     chan struct{}
	done     chan struct{}
}

type spawnRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func newSpawner() *spawner {
	return &spawner{requests: make(chan spawnRequest), stop: make(chan struct{})}
}

// open starts the thread, unless it is there.
func (s *spawner) open() {
	if s.done != nil {
		return
	}
	s.done = make(chan struct{})
	go s.run()
}

func (s *spawner) run() {
	defer close(s.done)
	runtime.LockOSThread() // never unlocked: the thread ends with run
	for {
		select {
		case req := <-s.requests:
			req.reply <- req.cmd.Start()
		case <-s.stop:
			return
		}
	}
}

// start starts cmd. The caller must not have called close.
func (s *spawner) start(cmd *exec.Cmd) error {
	reply := make(chan error, 1)
	s.requests <- spawnRequest{cmd, reply}
	return <-reply
}

// close ends the thread, and with it every child that is still there.
func (s *spawner) close() {
	close(s.stop)
	if s.done != nil {
		<-s.done
	}
}

// program makes the command of a child, or says why it cannot be run.
func program(command []string, dir string, env []string) (*exec.Cmd, error) {
	name := command[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) && dir != "" {
		// Relative to where it will run, for the check below and the kernel alike.
		abs, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("find program %q: %w", name, err)
		}
		name = abs
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, unusable(name, err)
	}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%w: model.dir %q is not a directory", errUnusable, dir)
		}
	}
	return &exec.Cmd{Path: path, Args: command, Dir: dir, Env: childEnv(env), SysProcAttr: processAttributes()}, nil
}

// childEnv adds to the worker's own environment. Python holds back what is
// printed into a pipe, and a runner that forgets to flush would hang.
func childEnv(env []string) []string {
	const key = "PYTHONUNBUFFERED="
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, key) }) {
		return env
	}
	return append(slices.Clip(env), key+"1")
}

// unusable words the errors of a program that cannot be started at all.
func unusable(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: model.command: %q is not on the PATH", errUnusable, name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: model.command: %q does not exist, or its interpreter does not", errUnusable, name)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: model.command: %q is not an executable file", errUnusable, name)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: model.command: %q is no program for this machine (a script needs a #! line)", errUnusable, name)
	}
	return fmt.Errorf("start %q: %w", name, err)
}
