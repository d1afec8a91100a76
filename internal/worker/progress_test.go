package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

// wantTrip checks that Alive turns exactly when the limit is over, counted from
// since: when batch.max_wait, infer.timeout and its minute, commit.timeout and
// the margin are over.
func (b *bundle) wantTrip(since time.Time) {
	b.t.Helper()
	limit := b.cfg.BatchWait + b.cfg.InferTimeout + time.Minute + b.cfg.StoreTimeout + 30*time.Second
	time.Sleep(time.Until(since.Add(limit))) // fake time
	synctest.Wait()
	if err := b.worker.Alive(); err != nil {
		b.t.Errorf("after %s: %v, want alive until the limit is over", time.Since(since), err)
	}
	time.Sleep(time.Nanosecond) // fake time
	if err := b.worker.Alive(); err == nil {
		b.t.Errorf("after %s: alive, want an error once the limit is over", time.Since(since))
	}
}

// A decoder that never returns holds everything, and no other limit sees it.
func TestStuckStageTripsLiveness(t *testing.T) {
	inBubble(t, func(b *bundle) {
		released := make(chan struct{})
		b.runner.PrepareFunc = func(context.Context, item.Item) (worker.Input, error) {
			<-released
			return worker.Input{}, errors.New("too late")
		}
		b.start()
		time.Sleep(time.Hour) // fake time; idle time does not count
		if err := b.worker.Alive(); err != nil {
			t.Errorf("idle: %v", err)
		}
		b.source.Add(items(64)...)
		synctest.Wait()
		b.wantTrip(time.Now())
		b.cancel()
		<-b.ended
		close(released)
	})
}

// A store that takes a commit and never comes back, past every deadline.
func TestStuckCommitTripsLiveness(t *testing.T) {
	inBubble(t, func(b *bundle) {
		released := make(chan struct{})
		b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault { <-released; return workertest.Fault{} }
		b.cfg.BatchWait = 0
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		b.source.Add(jsonItem("r", "a"))
		synctest.Wait()
		b.wantTrip(time.Now())
		// The drain has limits of its own.
		b.cancel()
		synctest.Wait()
		if err := b.worker.Alive(); err != nil || b.source.Held() != 1 {
			t.Errorf("draining with %d held: %v", b.source.Held(), err)
		}
		close(released)
		b.finish(1)
	})
}

// To lose a lease is no progress: what is stuck stays stuck when the items go.
func TestLostLeasesAreNoProgress(t *testing.T) {
	inBubble(t, func(b *bundle) {
		released := make(chan struct{})
		b.store.OnLookup = func(context.Context, int) error { <-released; return nil }
		b.source.Lease = 100 * time.Second
		b.start()
		b.source.Add(items(64)...)
		b.waitFor("lost leases", func() bool { return b.source.Count(worker.Abandon) == 64 })
		time.Sleep(time.Hour) // fake time in which nothing is held, and nothing counts
		if err := b.worker.Alive(); err != nil {
			t.Errorf("nothing held: %v", err)
		}
		b.source.Add(jsonItem("r", "next"))
		synctest.Wait()
		b.wantTrip(time.Now().Add(-b.source.Lease))
		close(released)
		b.waitFor("lost lease", func() bool { return b.source.Held() == 0 })
		b.stop()
	})
}

// Work that takes long, and outages that make it start again and again, are no
// reason to restart a worker.
func TestLivenessBearsWithSlowWorkAndOutages(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(b *bundle)
	}{
		{"slow model", func(b *bundle) { b.runner.RunFunc = sleepy(b.cfg.InferTimeout - time.Second) }},
		{"model over its limit", func(b *bundle) { b.runner.RunFunc = sleepy(time.Hour) }},
		{"model that is late to notice", func(b *bundle) {
			b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
				time.Sleep(b.cfg.InferTimeout + 59*time.Second) // fake time
				return nil, worker.Failf(worker.ClassTransient, "overloaded")
			}
		}},
		{"store away", func(b *bundle) {
			b.store.OnLookup = func(context.Context, int) error { return workertest.ErrUnavailable }
		}},
		{"store that hangs", func(b *bundle) {
			b.store.OnLookup = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
		}},
		{"items that wait for a batch", func(b *bundle) { b.cfg.BatchWait, b.cfg.BatchSize = time.Hour, 64 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.source.Redeliver = true
				tt.set(b)
				b.source.Add(items(40)...)
				b.start()
				for end := time.Now().Add(50 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) { // fake time
					if err := b.worker.Alive(); err != nil {
						t.Errorf("after %s: %v", 50*time.Minute-time.Until(end), err)
						break
					}
				}
				b.stop()
				time.Sleep(3 * time.Minute) // fake time; a run that was left behind ends
			})
		})
	}
}

// Each part may take all of its time, one after the other.
func TestLivenessBearsWithAllThatIsSlowAtOnce(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.StoreTimeout = 5 * time.Minute
		const slow = 299 * time.Second
		b.store.OnLookup = func(context.Context, int) error { time.Sleep(slow); return nil } // fake time
		b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
			time.Sleep(slow)
			return workertest.Fault{}
		} // fake time
		b.runner.RunFunc = sleepy(b.cfg.InferTimeout - time.Second)
		b.change = func(d *worker.Deps) {
			d.Fetcher = fetchFunc(func(context.Context, string) ([]byte, error) {
				time.Sleep(slow) // fake time
				return []byte(`{}`), nil
			})
		}
		attrs := jsonItem("r", "a").Attributes()
		attrs[item.AttrURI] = "gs://b/o"
		b.source.AddRaw(nil, attrs)
		b.start()
		for len(b.source.Settlements()) == 0 {
			time.Sleep(time.Second) // fake time
			if err := b.worker.Alive(); err != nil {
				t.Errorf("not alive: %v", err)
				break
			}
		}
		b.finish(1)
		b.wantCounts(1, 0)
	})
}
