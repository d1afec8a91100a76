package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

// The lease of the first delivery is lost while the item is in the model; the
// second delivery, which is still good, gets the result of that one run.
func TestTwinOutlivesTheFirstsLease(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 3 * time.Second
		b.runner.RunFunc = sleepy(4 * time.Second)
		it := jsonItem("r", "a")
		start := time.Now()
		b.source.Add(it)
		b.start()
		time.Sleep(2 * time.Second) // fake time
		b.source.Add(it)
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 2 })
		got := b.source.Settlements()
		if got[0].Settlement != worker.Abandon || got[0].At.Sub(start) != 3*time.Second || got[1].Settlement != worker.Ack {
			t.Errorf("settled as %s after %s and %s, want abandon after 3s and ack", got[0].Settlement, got[0].At.Sub(start), got[1].Settlement)
		}
		if runs := b.runner.Runs(it.Key); runs != 1 {
			t.Errorf("model runs: got %d, want 1", runs)
		}
		b.stop()
	})
}

// An item that takes longer than a lease may last is not run for ever: its row
// is written although nobody waits for it any more, and the next delivery finds
// it (case 1.8).
func TestResultOutlivesItsLease(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 3 * time.Second
		b.runner.RunFunc = sleepy(6 * time.Second)
		its := items(2)
		b.source.Add(its...)
		b.start()
		b.waitFor("loss", func() bool { return b.source.Count(worker.Abandon) == 2 })
		b.waitFor("rows", func() bool { return len(b.store.Rows()) == 2 })
		b.source.Add(its...)
		b.finish(4)
		b.wantCounts(2, 0)
		b.wantRow("a0", worker.StatusOK, "")
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d model runs, want 1", n)
		}
	})
}

// The next delivery may be here before the model has answered. It shares the
// run, as the guarantee says of two deliveries in one worker.
func TestNextDeliverySharesTheRunOfALostLease(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 4 * time.Second
		b.runner.RunFunc = sleepy(5 * time.Second)
		its := items(2)
		start := time.Now()
		b.source.Add(its...)
		b.start()
		b.waitFor("loss", func() bool { return b.source.Count(worker.Abandon) == 2 })
		b.source.Add(its...)
		b.finish(4)
		b.wantCounts(2, 0)
		for _, s := range b.source.Settlements()[2:] {
			if took := s.At.Sub(start).Round(100 * time.Millisecond); took != 5100*time.Millisecond {
				t.Errorf("acked after %s, want 5.1s", took)
			}
		}
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d model runs, want 1", n)
		}
	})
}

// An item that nobody waits for is not tried again.
func TestLostLeaseEndsTheTries(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 4 * time.Second
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			_, _ = sleepy(5*time.Second)(ctx, batch)
			return nil, worker.Failf(worker.ClassBatchError, "no")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("loss", func() bool { return b.source.Count(worker.Abandon) == 4 })
		time.Sleep(time.Minute) // fake time
		b.stop()
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d model runs, want 1", n)
		}
	})
}

// The lease of an item that is alone in the model is lost: that is no death,
// neither while it is still there nor when its run ends.
func TestLostLeaseInTheModelIsNoDeath(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.attempts.Set(worker.Attempt{Key: key("a0"), Started: 3, Worker: "dead"})
		b.source.Lease = 4 * time.Second
		b.runner.RunFunc = sleepy(time.Minute)
		b.source.AddAttempt(5, items(1)...)
		b.start()
		b.waitFor("start", func() bool { return b.started()["a0"] == 4 })
		b.waitFor("loss", func() bool { return b.source.Count(worker.Abandon) == 1 })
		time.Sleep(time.Second) // fake time
		b.wantStarted("after the loss", map[string]int{"a0": 3})
		b.waitFor("row", func() bool { return len(b.store.Rows()) == 1 })
		b.wantStarted("after the commit", map[string]int{})
		b.stop()
	})
}

// Nobody's failure is written down once the lease is lost: the next one may do
// better.
func TestFailureDoesNotOutliveItsLease(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 3 * time.Second
		b.store.Reject = func(r worker.Result) bool { return r.Key.ItemID == "a1" && r.Status == worker.StatusOK }
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			outs, err := sleepy(6*time.Second)(ctx, batch)
			for i := range outs {
				if outs[i].ItemID == "a0" {
					outs[i].Value, outs[i].Err = nil, errors.New("too blurred")
				}
			}
			return outs, err
		}
		b.source.Add(items(2)...)
		b.start()
		b.waitFor("loss", func() bool { return b.source.Count(worker.Abandon) == 2 })
		time.Sleep(time.Minute) // fake time
		b.stop()
		if rows := b.store.Rows(); len(rows) != 0 {
			t.Errorf("rows %v, want none", rows)
		}
	})
}

// When all leases of an item are lost, all its deliveries are abandoned, each
// as its own lease ends.
func TestTwinsLoseTheirLeasesOneByOne(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 3 * time.Second
		b.runner.RunFunc = sleepy(time.Minute)
		it := jsonItem("r", "a")
		start := time.Now()
		b.source.Add(it)
		b.start()
		time.Sleep(2 * time.Second) // fake time
		b.source.Add(it)
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 2 })
		for i, want := range []time.Duration{3 * time.Second, 5 * time.Second} {
			got := b.source.Settlements()[i]
			if got.Settlement != worker.Abandon || got.At.Sub(start) != want {
				t.Errorf("delivery %d settled as %s after %s, want abandon after %s", i, got.Settlement, got.At.Sub(start), want)
			}
		}
		b.stop()
	})
}

// What was abandoned goes no further, whatever stage it is in: not to the
// loader, and not to the model.
func TestAbandonedItemGoesNoFurther(t *testing.T) {
	for _, tt := range []struct {
		name          string
		lookup, model time.Duration
		prepared      int32
	}{
		{"in the look-up", 5 * time.Second, 0, 0},
		{"waiting for the model", 0, 5 * time.Second, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.BatchSize = 1
				b.source.Lease = 3 * time.Second
				b.store.OnLookup = func(context.Context, int) error { time.Sleep(tt.lookup); return nil }
				b.runner.RunFunc = sleepy(tt.model)
				var prepared atomic.Int32
				b.runner.PrepareFunc = func(_ context.Context, it item.Item) (worker.Input, error) {
					prepared.Add(1)
					return worker.Input{Item: it}, nil
				}
				b.source.Add(items(5)...)
				b.start()
				b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 5 })
				time.Sleep(time.Minute) // fake time
				b.stop()
				b.wantCounts(0, 0)
				if got := prepared.Load(); got != tt.prepared {
					t.Errorf("%d items were prepared, want %d", got, tt.prepared)
				}
				if got := len(b.runner.Batches()); got > 1 {
					t.Errorf("%d items were in the model, want at most the one that was there when the leases ended", got)
				}
			})
		})
	}
}

// A result whose lease was lost while it waited for a commit does not go into
// the same commit as the result of the item's next delivery: the store fails
// the test on a key that is twice in one call.
func TestAbandonedResultIsNotCommittedBesideTheNextOne(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.CommitConcurrency = 1
		b.source.Lease = 3 * time.Second
		b.store.OnCommit = func(_ context.Context, n int, _ []worker.Result) workertest.Fault {
			if n == 0 {
				time.Sleep(10 * time.Second)
			}
			return workertest.Fault{}
		}
		b.source.Add(jsonItem("r", "first"))
		b.start()
		b.waitFor("commit", func() bool { return b.store.Commits() == 1 })
		b.source.Add(jsonItem("r", "a"))
		time.Sleep(8 * time.Second) // fake time; both leases are over
		b.source.Add(jsonItem("r", "a"))
		b.finish(3)
		b.wantCounts(1, 0)
	})
}

// An item whose lease ends before its look-up is not looked up beside its next
// delivery: the keys of a call are distinct, which the fakes check.
func TestAbandonedItemIsNotLookedUpBesideItsNextDelivery(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 5 * time.Second
		b.store.OnLookup = func(_ context.Context, n int) error {
			if n < 4 { // as many as there are at once
				time.Sleep(10 * time.Second) // fake time
			}
			return nil
		}
		b.start()
		for _, it := range items(4) {
			b.source.Add(it)
			time.Sleep(time.Second) // fake time: a look-up for each
		}
		b.source.AddAttempt(3, jsonItem("r", "b"))
		time.Sleep(5500 * time.Millisecond) // fake time: its lease is over
		b.source.AddAttempt(4, jsonItem("r", "b"))
		b.finish(6)
		time.Sleep(time.Minute) // fake time: for the look-ups that were left behind
		b.wantCounts(1, 0)
	})
}
