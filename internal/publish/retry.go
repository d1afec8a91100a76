package publish

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// RetryOf says which items are published again.
type RetryOf string

// The kinds of retry.
const (
	// RetryFailed are the items whose row is FAILED.
	RetryFailed RetryOf = "failed"
	// RetryMissing are the items without a row.
	RetryMissing RetryOf = "missing"
)

// wants tells whether an item with this row, or none, is published again.
func (of RetryOf) wants(status string, found bool) bool {
	if of == RetryMissing {
		return !found
	}
	return found && status != "OK"
}

// Retry publishes again those items of a published run that of asks for, and
// returns their number. The run's row stays as it is: the items were counted
// when they were published first. After an error or a stop, which is a
// *Stopped, the same call publishes what still has no other row by then.
func (p *Publisher) Retry(ctx context.Context, runID string, data Dataset, results Results, of RetryOf) (int64, error) {
	run, err := p.runs.Get(ctx, runID)
	if err == nil && run.Dataset != data.Name() {
		err = fmt.Errorf("run %s was published from another dataset (%s); give that one", run.ID, run.Dataset)
	}
	if err == nil && run.State != StatePublished {
		err = fmt.Errorf("run %s is %s; only items of a run that is %s can be published again", run.ID, run.State, StatePublished)
	}
	if err != nil {
		return 0, err
	}
	p.progress.Begin("publishing again", run.Published, dataset.Counts{})
	defer p.progress.End()
	sendCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	again := &pass{Publisher: p, run: run, pending: make(chan sent, min(p.cfg.Window, maxPending)), stop: stop}
	var work errgroup.Group
	var sendErr, confirmErr error
	work.Go(func() error { sendErr = again.resend(sendCtx, data, results, of); return nil })
	work.Go(func() error { confirmErr = again.confirm(sendCtx); return nil })
	_ = work.Wait()
	err = confirmErr
	if err == nil {
		err = sendErr
	}
	done := again.confirmed.Load()
	switch {
	case err == nil:
		return done, nil
	case ctx.Err() != nil:
		return done, &Stopped{Published: done, Total: run.Published, Again: true, Cause: context.Cause(ctx)}
	}
	return done, fmt.Errorf("%d items are published again; give the same command again to go on: %w", done, err)
}

// resend is send for the items that of asks for.
func (p *pass) resend(ctx context.Context, data Dataset, results Results, of RetryOf) error {
	defer close(p.pending)
	var read int64
	return lookUp(ctx, p.run.ID, data.ItemsAfter(ctx, dataset.Position{}), lookupItems, results.Statuses, func(entry dataset.Entry, status string, found bool) error {
		if read++; read%progressStep == 0 {
			p.progress.Show(entry.Position.Counts)
		}
		if !of.wants(status, found) {
			return nil
		}
		return p.publish(ctx, entry)
	})
}
