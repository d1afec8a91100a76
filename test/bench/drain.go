package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
)

// drainModel is how long the batch that is in the model at the stop takes
// there: longer than the goal, so that what is measured waits for nothing of it.
const drainModel = 300 * time.Millisecond

// drain measures the time from SIGTERM to the moment when the server has the
// last nack of what was not in the model.
func (b *bench) drain(ctx context.Context) error {
	for _, delayed := range []bool{true, false} {
		var took []time.Duration
		err := b.with(ctx, delayed, func(s *site) error {
			for try := 1; len(took) < b.size.drains; try++ {
				q, err := s.queue(ctx, fmt.Sprintf("drain%d", try))
				if err != nil {
					return err
				}
				d, err := q.drainOnce(ctx)
				if errors.Is(err, errMissed) && try < 2*b.size.drains {
					continue
				}
				if err != nil {
					return fmt.Errorf("drain %d: %w", try, err)
				}
				took = append(took, d)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.Sort(took)
		where := "not delayed"
		if delayed {
			where = "delayed"
		}
		note := fmt.Sprintf("%d drains of %d held, one batch of %s in the model; as the server saw it", len(took), heldAtDrain(), drainModel)
		b.add(line{What: "SIGTERM to last nack, p50, " + where, Value: millis(percentile(took, 50)), Unit: "ms", Note: note})
		b.atMost(100, line{What: "SIGTERM to last nack, p99, " + where, Value: millis(percentile(took, 99)), Unit: "ms", Note: note})
	}
	return nil
}

func heldAtDrain() int { return 4 * config.Default().Batch.MaxSize }

// percentile of sorted values, by nearest rank.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// errMissed says that a drain did not begin while the first batch was in the
// model: the machine was too slow, and it is tried again.
var errMissed = errors.New("the first batch left the model before the drain began")

// drainOnce stops one worker that holds as much as it may, and returns when
// the server had the last nack.
func (q queue) drainOnce(ctx context.Context) (time.Duration, error) {
	held := heldAtDrain()
	if err := q.publish(ctx, held); err != nil {
		return 0, err
	}
	crew := q.hire(ctx)
	defer crew.dismiss()
	process, err := crew.add(roleWorker, jobArgs{model: drainModel, batches: true})
	if err != nil {
		return 0, err
	}
	inModel := int64(0)
	for inModel == 0 {
		n, err := crew.next()
		if err != nil {
			return 0, err
		}
		if n.Kind == begun {
			inModel = n.Items
		}
	}
	for {
		counts, err := q.counts(ctx)
		if err != nil {
			return 0, err
		}
		if counts.Leased == held {
			break
		}
		if counts.Acked > 0 {
			return 0, errMissed
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	process.stop(syscall.SIGTERM)
	for process.running() {
		n, err := crew.next()
		if err != nil {
			return 0, err
		}
		if n.Kind == begun || n.Kind == ended && n.At < begin.UnixNano() {
			return 0, errMissed
		}
	}
	if process.err != nil {
		return 0, process.failure()
	}
	last, nacks, err := q.lastNack(ctx, held)
	if err == nil && nacks != held-int(inModel) {
		err = fmt.Errorf("%d items were nacked; %d were held, %d of them in the model", nacks, held, inModel)
	}
	return last.Sub(begin), err
}

// lastNack asks the server when it had the last nack, and how many.
func (q queue) lastNack(ctx context.Context, items int) (last time.Time, nacks int, err error) {
	for i := range items {
		events, err := q.history(ctx, q.itemID(i))
		if err != nil {
			return last, nacks, err
		}
		for _, e := range events {
			if e.Event != "nacked" {
				continue
			}
			nacks++
			if e.At.After(last) {
				last = e.At
			}
		}
	}
	return last, nacks, nil
}
