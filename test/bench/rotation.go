package main

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// rotation keeps goodputWorkers workers running and stops one after the other.
type rotation struct {
	*crew
	// signal stops a worker each period; 0 stops none.
	signal syscall.Signal
	every  time.Duration
	warm   int // batches

	workers [goodputWorkers]*child
	// due is when a worker that has ended is started again.
	due [goodputWorkers]time.Time
	// asked is when a worker was stopped whose successor has had no batch yet.
	asked [goodputWorkers]time.Time
	// batches is how many each worker that runs has had in its model.
	batches map[*child]int

	// stops is how many were stopped, back the time from then to the first
	// batches of their successors, all together, of which there were returns.
	stops   int
	returns int
	back    time.Duration
	// starts is how many workers have become ready, startUp how long that took
	// them, all together.
	starts  int
	startUp time.Duration
	// started is how many items have entered a model.
	started int64
}

// fill starts all workers and waits until they are warm.
func (r *rotation) fill() error {
	r.batches = make(map[*child]int)
	workers, err := r.together(len(r.workers), roleWorker, rotationArgs, r.take, rotationEnv()...)
	if err != nil {
		return err
	}
	copy(r.workers[:], workers)
	for {
		n, err := r.next()
		if err != nil {
			return err
		}
		r.take(n)
		warm := 0
		for _, c := range r.workers {
			if r.batches[c] >= r.warm {
				warm++
			}
		}
		if warm == len(r.workers) {
			return nil
		}
	}
}

var rotationArgs = jobArgs{model: goodputModel, batches: true}

func rotationEnv() []string {
	return append(outstandingEnv(wide), "SPOTBATCH_PULL_LEASE="+goodputLease)
}

func (r *rotation) restart(i int) (err error) {
	r.due[i] = time.Time{}
	r.workers[i], err = r.add(roleWorker, rotationArgs, rotationEnv()...)
	return err
}

func (r *rotation) take(n note) {
	switch n.Kind {
	case ready:
		r.starts++
		r.startUp += time.Duration(n.At - n.from.started.UnixNano())
	case begun:
		r.started += n.Items
		r.batches[n.from]++
		if i := slices.Index(r.workers[:], n.from); r.batches[n.from] == 1 && !r.asked[i].IsZero() {
			r.back += time.Duration(n.At - r.asked[i].UnixNano())
			r.returns++
			r.asked[i] = time.Time{}
		}
	case gone:
		r.due[slices.Index(r.workers[:], n.from)] = time.Now().Add(restartAfter)
	case ended, used:
	}
}

// runUntil stops and starts workers until end. The first is stopped after half
// a period.
func (r *rotation) runUntil(end time.Time) error {
	next := time.Now().Add(r.every / 2)
	if r.signal == 0 {
		next = end
	}
	for time.Now().Before(end) {
		if err := r.step(earliest(end, next)); err != nil {
			return err
		}
		if now := time.Now(); now.Before(end) && !now.Before(next) {
			i := r.stops % len(r.workers)
			r.asked[i] = time.Now()
			r.workers[i].stop(r.signal)
			r.stops++
			next = next.Add(r.every)
		}
	}
	return nil
}

// step takes what is told next and starts who is due, until a deadline that is
// not after the given one.
func (r *rotation) step(deadline time.Time) error {
	for _, due := range r.due {
		if !due.IsZero() {
			deadline = earliest(deadline, due)
		}
	}
	n, told, err := r.until(deadline)
	if err != nil {
		return err
	}
	if told {
		r.take(n)
	}
	for i, due := range r.due {
		if !due.IsZero() && !time.Now().Before(due) {
			if err := r.restart(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish lets the workers work until all items are acked.
func (r *rotation) finish(ctx context.Context, items int) error {
	for {
		counts, err := r.counts(ctx)
		if err != nil || counts.Acked == items {
			return err
		}
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			if err := r.step(end); err != nil {
				return err
			}
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
