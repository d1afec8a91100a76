package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/checkpoint"
	"github.com/spotbatch/spotbatch/internal/dataset"
)

// How often, how long, how many.
const (
	// recordInterval is the time between two updates of the run's row, and
	// saveInterval between two saves of the state.
	recordInterval = 2 * time.Second
	saveInterval   = time.Second
	// showInterval is the time between two looks of Progress.
	showInterval = 200 * time.Millisecond
	// stopTimeout is how long confirmations are awaited after a stop, and
	// lastWords how long saving may take then. Together with the closing of
	// connections they are below the ten seconds that a stop may take.
	stopTimeout = 5 * time.Second
	lastWords   = 3 * time.Second
	// maxPending is a number of messages: with more than these unconfirmed, a
	// larger window gains nothing.
	maxPending = 100_000
	// updateTimeout bounds one update of the run's row.
	updateTimeout = 10 * time.Second
)

// sent is an entry on its way: a message that waits for its confirmation, or,
// without one, an entry that is left out.
type sent struct {
	confirmation Confirmation
	id           string
	bytes        int
	at           dataset.Position
}

// pass is one publishing of what is left of the items.
type pass struct {
	*Publisher
	run   Run
	state Checkpoint
	// pending carries messages from send to confirm, in their order.
	pending chan sent
	// confirmed counts items, those of earlier publishes with them.
	confirmed atomic.Int64
	// stop ends the sending, with a cause.
	stop context.CancelCauseFunc

	mu    sync.Mutex
	saved snapshot // guarded by mu; After goes on with the confirmations
}

func newPass(p *Publisher, run Run, saved snapshot, state Checkpoint) *pass {
	this := &pass{Publisher: p, run: run, state: state, saved: saved, pending: make(chan sent, min(p.cfg.Window, maxPending))}
	this.confirmed.Store(saved.After.Counts.Items)
	return this
}

// do sends and confirms side by side, and keeps row, state and progress up to
// date.
func (p *pass) do(ctx context.Context, data Dataset) error {
	// The first save says whether the state can be written at all, and lets
	// another publisher of the run notice this one.
	if err := p.state.Save(ctx, p.snapshot()); err != nil {
		return p.stopped(ctx, err)
	}
	p.progress.Begin("publishing", p.saved.Total.Items, p.saved.After.Counts)
	sendCtx, stopSending := context.WithCancelCause(ctx)
	defer stopSending(nil)
	p.stop = stopSending
	// The watchers end with the work. What they cut short then is done anew.
	watchCtx, finished := context.WithCancel(context.WithoutCancel(ctx))
	defer finished()
	var watchers, work errgroup.Group
	watchers.Go(func() error { p.show(watchCtx); return nil })
	watchers.Go(func() error { p.record(watchCtx); return nil })
	watchers.Go(func() error { p.save(watchCtx); return nil })

	var sendErr, confirmErr error
	work.Go(func() error { sendErr = p.send(sendCtx, data); return nil })
	work.Go(func() error { confirmErr = p.confirm(sendCtx); return nil })
	_ = work.Wait()
	finished()
	_ = watchers.Wait()
	p.progress.Show(p.snapshot().After.Counts)
	p.progress.End()

	err := confirmErr
	if err == nil {
		err = sendErr
	}
	done, total := p.confirmed.Load(), p.saved.Total.Items
	switch {
	case err != nil || done == total:
	case sendCtx.Err() != nil:
		err = context.Cause(sendCtx)
	default:
		err = fmt.Errorf("the dataset had %d items when it was checked and %d when it was published; somebody has changed it", total, done)
	}
	return p.finish(ctx, err)
}

// send publishes every item, and ends p.pending.
func (p *pass) send(ctx context.Context, data Dataset) error {
	defer close(p.pending)
	for entry, err := range data.ItemsAfter(ctx, p.snapshot().After) {
		if err != nil {
			return err
		}
		if entry.Problem != nil {
			p.pending <- sent{at: entry.Position}
			continue
		}
		if err := p.publish(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// publish sends an entry. What has been sent is confirmed and counted, also
// after a stop, so that it waits for room whatever ctx says.
func (p *pass) publish(ctx context.Context, entry dataset.Entry) error {
	if p.limit.Wait(ctx) != nil {
		return context.Cause(ctx)
	}
	it := entry.Item
	it.RunID = p.run.ID
	p.pending <- sent{confirmation: p.topic.Publish(ctx, it), id: it.ItemID, bytes: len(it.Data), at: entry.Position}
	return nil
}

// confirm counts the confirmations of all pending messages. At the first that
// fails, or when ctx is done, it waits stopTimeout for the rest.
func (p *pass) confirm(ctx context.Context) error {
	waitCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, cancel)
		context.AfterFunc(waitCtx, func() { timer.Stop() })
	})
	defer stop()
	var first error
	gap := false
	for message := range p.pending {
		if message.confirmation != nil {
			err := message.confirmation.Wait(waitCtx)
			if err != nil {
				gap = true
				// After a stop, what was not sent is not an error of its own.
				if first == nil && ctx.Err() == nil {
					first = fmt.Errorf("publish item %q (%s): %w", message.id, message.at, err)
					p.stop(first)
				}
				continue
			}
			p.count(ctx, message)
		}
		if !gap {
			p.mu.Lock()
			p.saved.After = message.at
			p.mu.Unlock()
		}
	}
	return first
}

func (p *pass) count(ctx context.Context, message sent) {
	p.confirmed.Add(1)
	p.items.Add(ctx, 1)
	p.bytes.Add(ctx, int64(message.bytes))
}

// snapshot is what to save now.
func (p *pass) snapshot() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saved
}

// every calls do in intervals until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// show keeps the progress up to date.
func (p *pass) show(ctx context.Context) {
	every(ctx, showInterval, func() { p.progress.Show(p.snapshot().After.Counts) })
}

// record keeps the run's row up to date. What cannot be recorded now can be
// later; publishing does not wait for it.
func (p *pass) record(ctx context.Context) {
	every(ctx, recordInterval, func() {
		err := p.update(ctx, StatePublishing, p.confirmed.Load(), updateTimeout)
		switch {
		case errors.Is(err, ErrCancelled), errors.Is(err, ErrPublished), errors.Is(err, ErrNoRun):
			p.stop(err)
		case err != nil && ctx.Err() == nil:
			p.log.Warn("run not updated", "run_id", p.run.ID, "error", err)
		}
	})
}

// save keeps the state up to date.
func (p *pass) save(ctx context.Context) {
	last := p.snapshot().After
	every(ctx, saveInterval, func() {
		now := p.snapshot()
		if now.After == last {
			return
		}
		err := p.state.Save(ctx, now)
		switch {
		case err == nil:
			last = now.After
		case errors.Is(err, checkpoint.ErrOvertaken):
			p.stop(err)
		case ctx.Err() == nil:
			p.log.Warn("state not saved", "run_id", p.run.ID, "error", err)
		}
	})
}

func (p *pass) update(ctx context.Context, state State, published int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.runs.Update(ctx, p.run.ID, state, published)
}

// finish records how the pass ended, and says how to go on.
func (p *pass) finish(ctx context.Context, cause error) error {
	detached := context.WithoutCancel(ctx)
	done, total := p.confirmed.Load(), p.saved.Total.Items
	if cause == nil {
		if err := p.update(detached, StatePublished, total, updateTimeout); err != nil {
			return fmt.Errorf("all %d items are published, but the run is not recorded as such; give the same command again: %w", total, err)
		}
		return nil
	}
	switch {
	case errors.Is(cause, ErrPublished):
		p.log.Info("another publisher has published the run to its end", "run_id", p.run.ID, "published_here", done)
		return nil
	case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrNoRun), errors.Is(cause, checkpoint.ErrOvertaken):
		// The run is somebody else's now.
		return fmt.Errorf("publishing run %s ended with %d of %d items: %w", p.run.ID, done, total, cause)
	}
	var last errgroup.Group
	last.Go(func() error {
		ctx, cancel := context.WithTimeout(detached, lastWords)
		defer cancel()
		return p.state.Save(ctx, p.snapshot())
	})
	last.Go(func() error {
		// The row only tells people; the state is what is gone on with.
		if err := p.update(detached, StatePublishing, done, lastWords); err != nil {
			p.log.Warn("run not updated", "run_id", p.run.ID, "error", err)
		}
		return nil
	})
	err := last.Wait()
	if ctx.Err() == nil {
		return errors.Join(fmt.Errorf("%d of %d items are published; give the same command again to go on: %w", done, total, cause), err)
	}
	stop := &Stopped{Published: done, Total: total, Cause: cause}
	if err != nil {
		return errors.Join(stop, err)
	}
	return stop
}
