package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is this program, started again with a role.
type child struct {
	cmd     *exec.Cmd
	log     string
	started time.Time
	// hold keeps a worker from taking messages until it is closed; nil when
	// it was not to wait.
	hold io.Closer
	// exited is closed when it has ended, after err was set.
	exited chan struct{}
	err    error
	// stopped says that it was asked to end. It belongs to who takes the notes.
	stopped bool
}

// note is an event and who told it.
type note struct {
	event
	from *child
}

// start starts a child that works on the queue. What it tells goes to notes
// until ctx is done. When it is ready it waits for its hold to be closed, if
// held. env is added to the queue's.
func (q queue) start(ctx context.Context, name string, args jobArgs, held bool, notes chan<- note, env []string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(q.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child writes through its own copy
	c := &child{log: log.Name(), exited: make(chan struct{}), started: time.Now()}
	c.cmd = exec.CommandContext(ctx, program, append([]string{name}, args.list()...)...)
	c.cmd.Env = append(append(os.Environ(), q.env()...), env...)
	c.cmd.Stderr = log
	if held {
		if c.hold, err = c.cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(ctx, out, notes) // ends with the child
	return c, nil
}

func (c *child) listen(ctx context.Context, out io.Reader, notes chan<- note) {
	tell := func(e event) {
		select {
		case notes <- note{event: e, from: c}:
		case <-ctx.Done():
		}
	}
	events := json.NewDecoder(out)
	var e event
	for events.Decode(&e) == nil {
		tell(e)
		e = event{}
	}
	c.err = c.cmd.Wait()
	close(c.exited)
	tell(event{Kind: gone, At: time.Now().UnixNano()})
}

// stop sends sig. A child that has ended already is no error here.
func (c *child) stop(sig syscall.Signal) {
	c.stopped = true
	_ = c.cmd.Process.Signal(sig)
}

// failure says why a child has ended that should not have.
func (c *child) failure() error {
	text, _ := os.ReadFile(c.log) // what is known without it is said
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s ended too early: %w: %s", filepath.Base(c.log), c.err, lines[len(lines)-1])
}

// crew is the children of one measurement.
type crew struct {
	queue
	notes    chan note
	children []*child
	ctx      context.Context
	release  context.CancelFunc
}

// hire makes a crew. The caller must dismiss it.
func (q queue) hire(ctx context.Context) *crew {
	c := &crew{queue: q, notes: make(chan note, 1024)}
	c.ctx, c.release = context.WithCancel(ctx)
	return c
}

func (c *crew) add(name string, args jobArgs, env ...string) (*child, error) {
	return c.launch(name, args, false, env)
}

func (c *crew) launch(name string, args jobArgs, held bool, env []string) (*child, error) {
	child, err := c.start(c.ctx, name, args, held, c.notes, env)
	if err == nil {
		c.children = append(c.children, child)
	}
	return child, err
}

// together starts n children that begin at the same time, when all are ready,
// and hands the notes of that to take.
func (c *crew) together(n int, name string, args jobArgs, take func(note), env ...string) ([]*child, error) {
	var started []*child
	for range n {
		child, err := c.launch(name, args, true, env)
		if err != nil {
			return nil, err
		}
		started = append(started, child)
	}
	for waiting := n; waiting > 0; {
		told, err := c.next()
		if err != nil {
			return nil, err
		}
		take(told)
		if told.Kind == ready {
			waiting--
		}
	}
	for _, child := range started {
		if err := child.hold.Close(); err != nil {
			return nil, err
		}
	}
	return started, nil
}

// dismiss kills all that still run.
func (c *crew) dismiss() {
	c.release()
	for _, child := range c.children {
		<-child.exited
	}
}

// silence is how long nothing may be told before a measurement is given up.
const silence = time.Minute

// next returns what is told next.
func (c *crew) next() (note, error) {
	n, told, err := c.until(time.Now().Add(silence))
	if err == nil && !told {
		err = fmt.Errorf("nothing was told for %s", silence)
	}
	return n, err
}

// until returns what is told next, if that is before the deadline. A child
// that has ended without having been asked to is an error.
func (c *crew) until(deadline time.Time) (n note, told bool, err error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case n = <-c.notes:
		if n.Kind == gone && !n.from.stopped {
			err = n.from.failure()
		}
		return n, true, err
	case <-timer.C:
		return note{}, false, nil
	case <-c.ctx.Done():
		return note{}, false, context.Cause(c.ctx)
	}
}

// running reports whether the child has not ended yet.
func (c *child) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}
