package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
)

// stretch is one stay of a batch in the model, in nanoseconds since 1970.
type stretch struct {
	from, to int64
	items    int64
}

// watch follows the models of some workers, from the moment when each of them
// has run warm batches until window is over.
type watch struct {
	window time.Duration
	warm   int
	// open is the batch that each worker has in the model, done are all that
	// have left it; ran counts those by worker.
	open map[*child]stretch
	done []stretch
	ran  map[*child]int
	// from is when the watching began, 0 before.
	from int64
	// started is how many items have entered a model.
	started int64
}

// take notes what a worker told. It returns true when the window is over and
// all batches in it are known.
func (w *watch) take(n note, workers int) bool {
	switch n.Kind {
	case begun:
		w.open[n.from] = stretch{from: n.At, items: n.Items}
		if w.from == 0 || n.At < w.to() {
			w.started += n.Items
		}
	case ended:
		s := w.open[n.from]
		s.to = n.At
		w.done = append(w.done, s)
		delete(w.open, n.from)
		w.ran[n.from]++
		if w.from == 0 && len(w.ran) == workers && w.allWarm() {
			w.from = n.At
		}
	case ready, used, gone:
	}
	if w.from == 0 || n.At < w.to() {
		return false
	}
	for _, s := range w.open {
		if s.from < w.to() {
			return false
		}
	}
	return true
}

func (w *watch) allWarm() bool {
	for _, n := range w.ran {
		if n < w.warm {
			return false
		}
	}
	return true
}

func (w *watch) to() int64 { return w.from + int64(w.window) }

// busy is the share of the window, in %, in which the models ran, items how
// many left them a second, and fill the mean size of their batches.
func (w *watch) busy(workers int) (busy, items, fill float64) {
	var ran, count, batches int64
	for _, s := range w.done {
		ran += max(0, min(s.to, w.to())-max(s.from, w.from))
		if w.from < s.to && s.to <= w.to() {
			count += s.items
			batches++
		}
	}
	window := float64(w.window)
	return 100 * float64(ran) / window / float64(workers), float64(count) / w.window.Seconds(), float64(count) / float64(max(1, batches))
}

// load is what some workers are watched with.
type load struct {
	role    string
	workers int
	model   time.Duration
	// outstanding is pull.max_outstanding; 0 is the default.
	outstanding int
}

// outcome is what a watch has shown.
type outcome struct {
	busy, items, fill float64
	idle              float64 // of the machine's CPUs, in %
}

// lateStart is how long after the first worker the last may be warm. Longer, and
// a measurement may fail for want of a backlog.
const lateStart = 3 * time.Second

// observe watches workers that have a backlog all the time.
func (b *bench) observe(ctx context.Context, l load) (o outcome, err error) {
	batch := config.Default().Batch.MaxSize
	held := l.workers * max(l.outstanding, 4*batch)
	window := max(b.size.window, b.size.windowBatches*l.model)
	// More than models that are never idle could run, and some seconds more, in
	// which the last worker is still becoming warm: the backlog lasts.
	perWorker := batch * (b.size.warmBatches + int((window+lateStart)/l.model))
	items := l.workers*perWorker + held
	err = b.with(ctx, true, func(s *site) error {
		q, err := s.queue(ctx, "items")
		if err != nil {
			return err
		}
		if err := q.publish(ctx, items); err != nil {
			return err
		}
		crew := q.hire(ctx)
		defer crew.dismiss()
		_, err = crew.together(l.workers, l.role, jobArgs{model: l.model, batches: true}, func(note) {}, outstandingEnv(l.outstanding)...)
		if err != nil {
			return err
		}
		w := &watch{window: window, warm: b.size.warmBatches, open: map[*child]stretch{}, ran: map[*child]int{}}
		var before idle
		for over := false; !over; {
			n, err := crew.next()
			if err != nil {
				return err
			}
			if over = w.take(n, l.workers); w.from == 0 {
				before = readIdle()
			}
		}
		o.idle = readIdle().since(before)
		o.busy, o.items, o.fill = w.busy(l.workers)
		if items-int(w.started) < held {
			return errors.New("the backlog ran out while the models were watched")
		}
		return nil
	})
	return o, err
}

// outstandingEnv sets pull.max_outstanding; 0 leaves the default.
func outstandingEnv(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("SPOTBATCH_PULL_MAX_OUTSTANDING=%d", n)}
}

// The model's times for a batch that are measured, and the goals for the share
// of time in which it is busy.
var busyGoals = []struct {
	model time.Duration
	goal  float64
}{{5 * time.Millisecond, 95}, {20 * time.Millisecond, 98}, {100 * time.Millisecond, 98}}

// wide is a pull.max_outstanding for fast models: see docs/performance.md.
const wide = 256

// busy measures the share of time in which the model runs while there is a
// backlog.
func (b *bench) busy(ctx context.Context) error {
	for _, outstanding := range []int{0, wide} {
		for _, g := range busyGoals {
			for _, workers := range []int{1, 4} {
				o, err := b.observe(ctx, load{role: roleWorker, workers: workers, model: g.model, outstanding: outstanding})
				if err != nil {
					return err
				}
				setting := "defaults"
				if outstanding != 0 {
					setting = fmt.Sprintf("pull.max_outstanding %d", outstanding)
				}
				b.atLeast(g.goal, line{
					What: fmt.Sprintf("device busy, %s a batch, %s, %s", g.model, count(workers, "worker"), setting), Value: o.busy, Unit: "%",
					Note: fmt.Sprintf("%.0f items/s, %.1f items a batch, CPUs %.0f%% idle", o.items, o.fill, o.idle),
				})
			}
		}
	}
	return nil
}

// textbook measures the plain loop, and the worker beside it.
func (b *bench) textbook(ctx context.Context) error {
	for _, g := range busyGoals {
		theirs, err := b.observe(ctx, load{role: roleTextbook, workers: 1, model: g.model})
		if err != nil {
			return err
		}
		ours, err := b.observe(ctx, load{role: roleWorker, workers: 1, model: g.model})
		if err != nil {
			return err
		}
		b.add(line{
			What: fmt.Sprintf("plain loop, %s a batch: device busy", g.model), Value: theirs.busy, Unit: "%",
			Note: fmt.Sprintf("%.0f items/s; the worker with its defaults is %.1f times as busy (%.1f%%) and does %.1f times the items",
				theirs.items, ours.busy/theirs.busy, ours.busy, ours.items/theirs.items),
		})
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
