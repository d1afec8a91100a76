package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a worker with fakes on all sides, inside a synctest bubble.
type bundle struct {
	t             *testing.T
	cfg           worker.Config
	source        *workertest.Source
	store         *workertest.Store
	attempts      *workertest.Attempts
	runner        *infertest.Fake
	cancellations worker.Cancellations // nil for none
	worker        *worker.Worker
	// change may exchange what the worker is given.
	change func(*worker.Deps)

	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// inBubble runs test with a bundle that is not started yet.
func inBubble(t *testing.T, test func(b *bundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		attempts := &workertest.Attempts{T: t}
		store := &workertest.Store{T: t, Attempts: attempts}
		test(&bundle{
			t:        t,
			store:    store,
			attempts: attempts,
			source:   &workertest.Source{T: t, Store: store},
			runner:   &infertest.Fake{T: t},
			cfg: worker.Config{
				Name: "w1", MaxHeld: 64,
				BatchSize: 4, BatchWait: 50 * time.Millisecond, BatchBytes: 1 << 20,
				InferConcurrency: 1, InferTimeout: time.Minute, MaxItemFailures: 3, MaxItemCrashes: 5, SuspectAfter: 3,
				CommitConcurrency: 4, StoreTimeout: 20 * time.Second,
				LoadTimeout: time.Minute, HardStop: 8 * time.Second,
			},
		})
	})
}

type fetchFunc func(ctx context.Context, uri string) ([]byte, error)

func (f fetchFunc) Fetch(ctx context.Context, uri string) ([]byte, error) { return f(ctx, uri) }

// start runs the worker until stop, or until it ends by itself.
func (b *bundle) start() {
	b.t.Helper()
	deps := worker.Deps{
		Source: b.source, DeadLetters: b.source, Store: b.store, Attempts: b.attempts, Runner: b.runner, Cancellations: b.cancellations,
		Fetcher: fetchFunc(func(_ context.Context, uri string) ([]byte, error) {
			if strings.HasPrefix(uri, "gone:") {
				return nil, worker.Failf(worker.ClassInvalidInput, "%s does not exist", uri)
			}
			return fmt.Appendf(nil, "%q", uri), nil
		}),
	}
	if b.change != nil {
		b.change(&deps)
	}
	w, err := worker.New(b.cfg, deps)
	if err != nil {
		b.t.Fatal(err)
	}
	b.worker = w
	ctx, cancel := context.WithCancel(b.t.Context())
	b.cancel = cancel
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		b.err = w.Run(ctx)
	}()
}

// stop asks the worker to stop, waits for it, and returns how long that took.
func (b *bundle) stop() time.Duration {
	b.t.Helper()
	start := time.Now()
	b.cancel()
	<-b.ended
	b.checkAllSettled()
	return time.Since(start)
}

func (b *bundle) checkAllSettled() {
	b.t.Helper()
	if n := b.source.Held(); n != 0 {
		b.t.Errorf("%d deliveries are not settled after the end", n)
	}
}

// finish waits until n deliveries were settled, then stops the worker.
func (b *bundle) finish(n int) {
	b.t.Helper()
	b.waitFor("settlements", func() bool { return len(b.source.Settlements()) >= n })
	b.stop()
	if b.err != nil {
		b.t.Errorf("Run: %v", b.err)
	}
}

// waitFor lets the bubble's clock run until cond holds, for at most an hour of
// its time.
func (b *bundle) waitFor(what string, cond func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Hour); !cond(); time.Sleep(time.Millisecond) { // fake time
		if time.Now().After(end) {
			b.t.Fatalf("no %s within an hour", what)
		}
		synctest.Wait()
	}
}

// items makes n items a0, a1 ... of run r with a JSON payload.
func items(n int) []item.Item {
	its := make([]item.Item, n)
	for i := range its {
		its[i] = jsonItem("r", fmt.Sprintf("a%d", i))
	}
	return its
}

func jsonItem(run, id string) item.Item {
	return item.Item{
		Key:         item.Key{RunID: run, ItemID: id},
		ContentType: item.ContentTypeJSON,
		Data:        fmt.Appendf(nil, `{"id":%q}`, id),
	}
}

// wantRow checks one row of the store.
func (b *bundle) wantRow(id string, status worker.Status, class worker.Class) {
	b.t.Helper()
	row, ok := b.store.Rows()[item.Key{RunID: "r", ItemID: id}]
	if !ok {
		b.t.Errorf("item %s has no row", id)
		return
	}
	if row.Status != status || row.Class != class {
		b.t.Errorf("row of %s: got %s %q (%s), want %s %q", id, row.Status, row.Class, row.Message, status, class)
	}
}

// wantCounts checks how deliveries were settled.
func (b *bundle) wantCounts(acks, nacks int) {
	b.t.Helper()
	if got := b.source.Count(worker.Ack); got != acks {
		b.t.Errorf("acks: got %d, want %d", got, acks)
	}
	if got := b.source.Count(worker.Nack); got != nacks {
		b.t.Errorf("nacks: got %d, want %d", got, nacks)
	}
}

// sleepy is a model that takes d for each batch.
func sleepy(d time.Duration) func(context.Context, []worker.Input) ([]worker.Output, error) {
	return func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
		select {
		case <-time.After(d):
			return infertest.Echo(batch), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
