package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
	"github.com/spotbatch/spotbatch/test/cluster"
)

// slot is the place of one worker: one life after the other.
type slot struct {
	number  int // from 1
	lives   int
	process *cluster.Process // nil between two lives
	name    string           // of the life
	// termed and frozen say which signals it has got.
	termed, frozen bool
	// pause is how long it stays dead after its end.
	pause time.Duration
}

// exit tells the run's goroutine that a process has ended.
type exit struct {
	slot *slot // nil: the publisher
	code int
}

// startWorker begins the next life of a slot.
func (r *run) startWorker(s *slot) error {
	s.lives++
	s.name = fmt.Sprintf("w%d-%d", s.number, s.lives)
	s.termed, s.frozen, s.pause = false, false, 500*time.Millisecond
	p, err := r.cluster.StartWorkerBuild(r.program, "POD_NAME="+s.name)
	if err != nil {
		return err
	}
	s.process = p
	r.log.add(audit.Event{Kind: audit.Started, Worker: s.name, Note: fmt.Sprintf("process %d, %s", p.PID(), p.Name)})
	r.watch(p, s)
	return nil
}

// watch notes the end of a process and passes it on.
func (r *run) watch(p *cluster.Process, s *slot) {
	var name string
	if s != nil {
		name = s.name
	}
	go func() { // ends with the process, which close kills
		<-p.Exited()
		if s != nil {
			r.log.add(audit.Event{Kind: audit.Exited, Worker: name, Code: p.Exit().Code})
		}
		select {
		case r.exits <- exit{slot: s, code: p.Exit().Code}:
		case <-r.closed:
		}
	}()
}

// signal sends a signal to the life in a slot and notes it: before it is sent,
// so that nothing that follows from it comes first; but a process that goes on
// has stood still until the signal was sent.
func (r *run) signal(s *slot, sig syscall.Signal, name string) error {
	e := audit.Event{Kind: audit.Signalled, Worker: s.name, Signal: name}
	if sig == syscall.SIGCONT {
		err := s.process.Signal(sig)
		r.log.add(e)
		return err
	}
	r.log.add(e)
	return s.process.Signal(sig)
}

// endWorkers stops all that live and waits for their exits, which the auditor
// then judges.
func (r *run) endWorkers(ctx context.Context) error {
	left := 0
	for _, s := range r.slots {
		if s.process == nil {
			continue
		}
		left++
		if err := r.end(s); err != nil {
			return err
		}
	}
	limit := time.NewTimer(drain + 2*time.Second)
	defer limit.Stop()
	for left > 0 {
		select {
		case e := <-r.exits:
			if e.slot != nil {
				e.slot.process = nil
				left--
			}
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// end stops the life in a slot, unless that has been done.
func (r *run) end(s *slot) error {
	if s.frozen {
		if err := r.signal(s, syscall.SIGCONT, "CONT"); err != nil {
			return err
		}
	}
	switch {
	case s.termed:
		return nil
	case s.process.Log() == "":
		// It cannot mind SIGTERM yet.
		return r.signal(s, syscall.SIGKILL, "KILL")
	}
	return r.signal(s, syscall.SIGTERM, "TERM")
}

// killChild kills the runner of a worker and reports whether there was one.
func (r *run) killChild(s *slot) bool {
	pid := s.process.PID()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false // it has just ended
	}
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue // the thread has just ended
		}
		for child := range strings.FieldsSeq(string(list)) {
			if n, err := strconv.Atoi(child); err == nil && syscall.Kill(n, syscall.SIGKILL) == nil {
				r.log.add(audit.Event{Kind: audit.RunnerKilled, Worker: s.name, Note: "process " + child})
				return true
			}
		}
	}
	return false
}

// running is the life in a slot that may be signalled, nil if there is none.
func (r *run) running(worker int) *slot {
	s := r.slots[worker%len(r.slots)]
	if s.process == nil || !s.process.Running() {
		return nil
	}
	return s
}
