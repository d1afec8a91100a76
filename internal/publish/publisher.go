package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/item"
)

// How often, how long, how many.
const (
	// recordInterval is the time between two updates of the run's row.
	recordInterval = 2 * time.Second
	// showInterval is the time between two looks of Progress.
	showInterval = 200 * time.Millisecond
	// stopTimeout is how long confirmations are awaited after a stop.
	stopTimeout = 6 * time.Second
	// maxPending is a number of messages: with more than these unconfirmed, a
	// larger window gains nothing.
	maxPending = 100_000
	// updateTimeout bounds one update of the run's row.
	updateTimeout = 10 * time.Second
)

// Publisher publishes datasets to one topic.
type Publisher struct {
	topic    Topic
	runs     Runs
	progress Progress
	log      *slog.Logger
	// window is the number of messages that can be unconfirmed.
	window       int
	items, bytes metric.Int64Counter
}

// New returns a publisher. window is the number of messages that topic lets
// be unconfirmed.
func New(ctx context.Context, topic Topic, window int, runs Runs, progress Progress, meters metric.MeterProvider, log *slog.Logger) (*Publisher, error) {
	meter := meters.Meter("github.com/spotbatch/spotbatch/internal/publish")
	items, err := meter.Int64Counter("spotbatch.published", metric.WithUnit("{item}"),
		metric.WithDescription("Items that Pub/Sub has confirmed."))
	if err != nil {
		return nil, fmt.Errorf("create counter: %w", err)
	}
	bytes, err := meter.Int64Counter("spotbatch.publish.bytes", metric.WithUnit("By"),
		metric.WithDescription("Payload bytes that Pub/Sub has confirmed."))
	if err != nil {
		return nil, fmt.Errorf("create counter: %w", err)
	}
	items.Add(ctx, 0)
	bytes.Add(ctx, 0)
	return &Publisher{topic: topic, runs: runs, progress: progress, log: log, window: window, items: items, bytes: bytes}, nil
}

// Run publishes data as the run runID and returns the number of its items.
//
// After an error, or when ctx is done, everything that was sent and can still
// be confirmed has been counted, the run stays PUBLISHING, and the same call
// publishes it anew.
func (p *Publisher) Run(ctx context.Context, runID string, data Dataset) (int64, error) {
	if err := item.CheckRunID(runID); err != nil {
		return 0, err
	}
	run, err := p.runs.Get(ctx, runID)
	if err == nil {
		err = mayPublish(run, data)
	}
	if err != nil && !errors.Is(err, ErrNoRun) {
		return 0, err
	}
	total, err := Check(ctx, data, p.progress)
	if err != nil {
		return 0, err
	}
	run, created, err := p.runs.Begin(ctx, runID, data.Name())
	if err != nil {
		return 0, err
	}
	if err := mayPublish(run, data); err != nil {
		return 0, err
	}
	if !created {
		p.log.Info("run was not published to its end; publishing it from the start", "run_id", runID, "published_before", run.Published)
	}
	pass := &pass{Publisher: p, run: run, total: total, pending: make(chan sent, min(p.window, maxPending))}
	return total, pass.do(ctx, data)
}

// mayPublish says whether a publish of data may go on with run.
func mayPublish(run Run, data Dataset) error {
	switch {
	case run.State != StatePublishing:
		return fmt.Errorf("run %s is %s already, with %d items; name another run with --run", run.ID, run.State, run.Published)
	case run.Dataset != data.Name():
		return fmt.Errorf("run %s was begun with another dataset (%s); give that one, or name another run with --run", run.ID, run.Dataset)
	}
	return nil
}

// sent is a message that waits for its confirmation.
type sent struct {
	confirmation Confirmation
	id           string
	bytes        int
}

// pass is one publishing of all items.
type pass struct {
	*Publisher
	run   Run
	total int64
	// pending carries messages from send to confirm, in their order.
	pending chan sent
	// items and bytes are confirmed so far.
	itemsDone, bytesDone atomic.Int64
}

// do sends and confirms side by side, and keeps row and progress up to date.
func (p *pass) do(ctx context.Context, data Dataset) error {
	p.progress.Begin("publishing", p.total)
	finished := make(chan struct{})
	var watchers, work errgroup.Group
	watchers.Go(func() error { p.show(finished); return nil })
	watchers.Go(func() error { p.record(ctx, finished); return nil })

	sendCtx, stopSending := context.WithCancelCause(ctx)
	defer stopSending(nil)
	var sendErr, confirmErr error
	work.Go(func() error { sendErr = p.send(sendCtx, data); return nil })
	work.Go(func() error { confirmErr = p.confirm(sendCtx, stopSending); return nil })
	_ = work.Wait()
	close(finished)
	_ = watchers.Wait()
	p.progress.Show(p.itemsDone.Load(), p.bytesDone.Load())
	p.progress.End()

	err := confirmErr
	if err == nil {
		err = sendErr
	}
	done := p.itemsDone.Load()
	switch {
	case err != nil || done == p.total:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = fmt.Errorf("the dataset had %d items when it was checked and %d when it was published; somebody has changed it", p.total, done)
	}
	return p.finish(ctx, err)
}

// send publishes every item, and ends p.pending.
func (p *pass) send(ctx context.Context, data Dataset) error {
	defer close(p.pending)
	for entry, err := range data.Items(ctx) {
		if err != nil {
			return err
		}
		it := entry.Item
		it.RunID = p.run.ID
		// confirm takes everything up to the end, also after a stop: what was
		// sent is counted.
		p.pending <- sent{confirmation: p.topic.Publish(ctx, it), id: it.ItemID, bytes: len(it.Data)}
	}
	return nil
}

// confirm counts the confirmations of all pending messages. At the first that
// fails, or when ctx is done, it waits stopTimeout for the rest.
func (p *pass) confirm(ctx context.Context, stopSending context.CancelCauseFunc) error {
	waitCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, cancel)
		context.AfterFunc(waitCtx, func() { timer.Stop() })
	})
	defer stop()
	var first error
	for message := range p.pending {
		err := message.confirmation.Wait(waitCtx)
		if err != nil {
			// After a stop, what was not sent is not an error of its own.
			if first == nil && ctx.Err() == nil {
				first = fmt.Errorf("publish item %q: %w", message.id, err)
				stopSending(first)
			}
			continue
		}
		p.itemsDone.Add(1)
		p.bytesDone.Add(int64(message.bytes))
		p.items.Add(ctx, 1)
		p.bytes.Add(ctx, int64(message.bytes))
	}
	return first
}

// show keeps the progress up to date.
func (p *pass) show(finished <-chan struct{}) {
	tick := time.NewTicker(showInterval)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			p.progress.Show(p.itemsDone.Load(), p.bytesDone.Load())
		}
	}
}

// record keeps the run's row up to date. What cannot be recorded now can be
// later; publishing does not wait for it.
func (p *pass) record(ctx context.Context, finished <-chan struct{}) {
	tick := time.NewTicker(recordInterval)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			if err := p.update(ctx, StatePublishing, p.published()); err != nil {
				p.log.Warn("run not updated", "run_id", p.run.ID, "error", err)
			}
		}
	}
}

// update writes the run's row. A stop does not cut it short: an update that
// was given up could still arrive, after the last one.
func (p *pass) update(ctx context.Context, state State, published int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateTimeout)
	defer cancel()
	return p.runs.Update(ctx, p.run.ID, state, published)
}

// published is what the row says: an earlier publish may have come further
// than this one is now.
func (p *pass) published() int64 { return max(p.run.Published, p.itemsDone.Load()) }

// finish records how the pass ended, and says how to go on.
func (p *pass) finish(ctx context.Context, cause error) error {
	if cause == nil {
		err := p.update(ctx, StatePublished, p.total)
		if err != nil {
			return fmt.Errorf("all %d items are published, but the run is not recorded as such; give the same command again: %w", p.total, err)
		}
		return nil
	}
	state := fmt.Errorf("%d of %d items are published; give the same command again to go on: %w", p.itemsDone.Load(), p.total, cause)
	return errors.Join(state, p.update(ctx, StatePublishing, p.published()))
}
