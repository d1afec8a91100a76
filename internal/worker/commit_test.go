package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

func TestRowThatTheStoreRefusesIsRecordedAsFailed(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.store.Reject = func(r worker.Result) bool { return r.Key.ItemID == "a2" && r.Status == worker.StatusOK }
		b.source.Add(items(4)...)
		b.start()
		b.finish(4)
		b.wantCounts(4, 0)
		b.wantRow("a2", worker.StatusFailed, worker.ClassInvalidOutput)
		b.wantRow("a1", worker.StatusOK, "")
	})
}

// A row that the store refuses even as FAILED is given back when StoreTimeout
// is over, with pauses between the tries; its neighbours are acked at once.
func TestRowThatTheStoreNeverTakesIsGivenBack(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.store.Reject = func(r worker.Result) bool { return r.Key.ItemID == "a2" }
		b.source.Add(items(4)...)
		start := time.Now()
		b.start()
		b.waitFor("acks", func() bool { return b.source.Count(worker.Ack) == 3 })
		if took := time.Since(start); took > time.Second {
			t.Errorf("the neighbours were acked after %s, want at once", took)
		}
		b.finish(4)
		b.wantCounts(3, 1)
		if n := b.store.Commits(); n > 15 {
			t.Errorf("%d commits, want few in %s", n, b.cfg.StoreTimeout)
		}
	})
}

// shortStore forgets the answer for the last result.
type shortStore struct{ worker.Store }

func (s shortStore) Commit(ctx context.Context, results []worker.Result) []error {
	errs := s.Store.Commit(ctx, results)
	return errs[:len(errs)-1]
}

func TestStoreThatAnswersForTooFewIsNotTrusted(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.change = func(d *worker.Deps) { d.Store = shortStore{d.Store} }
		b.source.Add(items(4)...)
		b.start()
		b.finish(4)
		b.wantCounts(0, 4)
	})
}

// TestEveryCommitFailsOnce makes operation n fail, for all n, kept and lost.
// The source fails the test on an ack without a row.
func TestEveryCommitFailsOnce(t *testing.T) {
	const commits = 6
	for _, kept := range []bool{false, true} {
		for n := range commits {
			inBubble(t, func(b *bundle) {
				b.cfg.CommitConcurrency = 1
				b.runner.RunFunc = sleepy(time.Second)
				b.store.OnCommit = func(_ context.Context, call int, _ []worker.Result) workertest.Fault {
					if call == n {
						return workertest.Fault{Kept: kept, Err: workertest.ErrUnavailable}
					}
					return workertest.Fault{}
				}
				b.source.Add(items(4 * commits)...)
				b.start()
				b.finish(4 * commits)
				b.wantCounts(4*commits, 0)
				if got := b.store.Commits(); got != commits+1 {
					t.Errorf("kept %t, n %d: %d commits, want %d", kept, n, got, commits+1)
				}
			})
		}
	}
}

func TestStoreThatStaysAwayGivesItemsBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		breakIt func(b *bundle, down *atomic.Bool)
	}{
		{"look-up", func(b *bundle, down *atomic.Bool) {
			b.store.OnLookup = func(context.Context, int) error {
				if down.Load() {
					return workertest.ErrUnavailable
				}
				return nil
			}
		}},
		{"commit lost", func(b *bundle, down *atomic.Bool) {
			b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
				if down.Load() {
					return workertest.Fault{Err: workertest.ErrUnavailable}
				}
				return workertest.Fault{}
			}
		}},
		{"commit hangs", func(b *bundle, down *atomic.Bool) {
			b.store.OnCommit = func(ctx context.Context, _ int, _ []worker.Result) workertest.Fault {
				if down.Load() {
					<-ctx.Done()
				}
				return workertest.Fault{}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				var down atomic.Bool
				down.Store(true)
				tt.breakIt(b, &down)
				b.source.Add(items(4)...)
				start := time.Now()
				b.start()
				b.waitFor("nacks", func() bool { return b.source.Count(worker.Nack) == 4 })
				// Given back when StoreTimeout is over, not at the first error.
				if took := time.Since(start); took < b.cfg.StoreTimeout-5*time.Second || took > b.cfg.StoreTimeout+time.Second {
					t.Errorf("given back after %s, want about %s", took, b.cfg.StoreTimeout)
				}
				down.Store(false)
				b.source.Add(items(4)...)
				b.finish(8)
				b.wantCounts(4, 4)
			})
		})
	}
}
