package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
)

const (
	goodputWorkers = 4
	goodputModel   = 20 * time.Millisecond
	// restartAfter is how long after its end a stopped worker is started again.
	restartAfter = time.Second
	// goodputLease is the shortest there is: of a killed worker's items nobody
	// has anything until it ends.
	goodputLease = "10s"
)

// goodput compares runs in which workers are stopped, one after the other, with
// those before and after them in which none is; the better of these counts,
// since a machine is not equally fast at all times.
func (b *bench) goodput(ctx context.Context) error {
	signals := []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL, 0}
	got := make([]effect, len(signals))
	for i, signal := range signals {
		var err error
		if got[i], err = b.disturbed(ctx, signal); err != nil {
			return err
		}
	}
	calm := got[0]
	if got[3].rate > calm.rate {
		calm = got[3]
	}
	b.add(line{
		What: fmt.Sprintf("items stored, %d workers, nobody stopped", goodputWorkers), Value: calm.rate, Unit: "items/s",
		Note: fmt.Sprintf("better of 2; %s a batch, pull.max_outstanding %d, delayed, CPUs %.0f%% idle", goodputModel, wide, calm.idle),
	})
	b.stopped("SIGTERM", 97, got[1], calm)
	b.stopped("SIGKILL", 90, got[2], calm)
	return nil
}

// stopped adds the lines of a run in which workers were stopped.
func (b *bench) stopped(signal string, goal float64, e, calm effect) {
	could := calm.rate * (1 - e.lost)
	b.atLeast(goal, line{
		What: fmt.Sprintf("items stored, %s every %s, of what the rest could do", signal, b.size.preemptEvery), Value: 100 * e.rate / could, Unit: "%",
		Note: fmt.Sprintf("%.0f items/s; %d stops took %.1f%% of the capacity away (1 s each, and a start-up of %.0f ms); %.2f s from the signal to the next batch; CPUs %.0f%% idle",
			e.rate, e.stops, 100*e.lost, millis(e.startUp), e.back.Seconds(), e.idle),
	})
	b.add(line{What: "model runs that were repeated, " + signal, Value: 100 * e.repeated, Unit: "%", Note: "of all items in the run to its end"})
}

// effect is what one run came to.
type effect struct {
	rate  float64 // items acked a second while the run was watched
	idle  float64 // of the machine's CPUs, in %
	stops int
	// lost is the share of the workers' time in which they could not work: the
	// pauses before they were started again, and their start-ups, of which
	// startUp is the mean.
	lost    float64
	startUp time.Duration
	// back is the mean time from a signal to the first batch of the worker's
	// successor.
	back time.Duration
	// repeated is the number of items that entered a model more than once, as
	// a share.
	repeated float64
}

// disturbed runs workers against a backlog and stops one of them in turn, with
// signal, if it is not 0. Those that were it lets finish.
func (b *bench) disturbed(ctx context.Context, signal syscall.Signal) (effect, error) {
	var e effect
	window := time.Duration(b.size.preemptions) * b.size.preemptEvery
	perSecond := goodputWorkers * config.Default().Batch.MaxSize * int(time.Second/goodputModel)
	items := perSecond*int((window+lateStart)/time.Millisecond)/1000 + goodputWorkers*wide
	err := b.with(ctx, true, func(s *site) error {
		q, err := s.queue(ctx, "items")
		if err != nil {
			return err
		}
		if err := q.publish(ctx, items); err != nil {
			return err
		}
		crew := q.hire(ctx)
		defer crew.dismiss()
		r := &rotation{crew: crew, signal: signal, every: b.size.preemptEvery, warm: b.size.warmBatches}
		if err := r.fill(); err != nil {
			return err
		}
		cpus := readIdle()
		from, err := q.counts(ctx)
		if err != nil {
			return err
		}
		if err := r.runUntil(from.at.Add(window)); err != nil {
			return err
		}
		to, err := q.counts(ctx)
		if err != nil {
			return err
		}
		took := to.at.Sub(from.at)
		if to.Ready < goodputWorkers*wide/4 {
			return errors.New("the backlog ran out while the workers were watched")
		}
		e.rate = float64(to.Acked-from.Acked) / took.Seconds()
		e.idle = readIdle().since(cpus)
		e.stops, e.startUp = r.stops, r.startUp/time.Duration(r.starts)
		e.back = r.back / time.Duration(max(1, r.returns))
		e.lost = float64(time.Duration(r.stops)*(restartAfter+e.startUp)) / float64(goodputWorkers*took)
		if signal == 0 {
			return nil
		}
		if err := r.finish(ctx, items); err != nil {
			return err
		}
		e.repeated = float64(r.started-int64(items)) / float64(items)
		return nil
	})
	return e, err
}
