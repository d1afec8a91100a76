package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// Nobody is alone in the model while another batch is there: an item that takes
// the whole runner with it costs no item a death but itself.
func TestDeathBesideAnotherBatchDoesNotCount(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.InferConcurrency, b.runner.Concurrency = 2, 2
		var mu sync.Mutex
		dead := make(chan struct{}) // closed when the process dies, in which all batches are
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			mu.Lock()
			died := dead
			mu.Unlock()
			if hasA2(batch) {
				time.Sleep(10 * time.Millisecond) // fake time
				mu.Lock()
				close(dead)
				dead = make(chan struct{})
				mu.Unlock()
			}
			select {
			case <-died:
				return nil, worker.Failf(worker.ClassRunnerCrash, "signal: segmentation fault")
			case <-time.After(20 * time.Millisecond):
				return infertest.Echo(batch), nil
			}
		}
		b.source.AddAttempt(5, items(8)...)
		b.start()
		b.finish(8)
		b.wantCounts(8, 0)
		for id := range 8 {
			if id != 2 {
				b.wantRow(fmt.Sprintf("a%d", id), worker.StatusOK, "")
			}
		}
		b.wantRow("a2", worker.StatusFailed, worker.ClassRunnerCrash)
		b.wantStarted("at the end", map[string]int{})
	})
}

// A batch that runs beside a single item may have taken its memory.
func TestSingleThatRunsOutOfMemoryBesideAnotherBatchRunsAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		beside int // with how many other batches it fits
		status worker.Status
		class  worker.Class
	}{{"fits", 0, worker.StatusOK, ""}, {"never fits", -1, worker.StatusFailed, worker.ClassOutOfMemory}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.InferConcurrency, b.runner.Concurrency = 2, 2
				b.cfg.BatchSize, b.cfg.BatchWait = 1, 0
				b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
					time.Sleep(10 * time.Millisecond) // fake time
					if hasA2(batch) && b.runner.Running()-1 > tt.beside {
						return nil, worker.Failf(worker.ClassOutOfMemory, "no memory left")
					}
					time.Sleep(10 * time.Millisecond) // fake time
					return infertest.Echo(batch), nil
				}
				b.source.Add(items(8)...)
				b.start()
				b.finish(8)
				b.wantRow("a2", tt.status, tt.class)
				b.wantStarted("at the end", map[string]int{})
			})
		})
	}
}

// A drain does not wait for the records of items that are about to go into
// quarantine.
func TestDrainOnTheWayIntoQuarantine(t *testing.T) {
	for _, tt := range []struct {
		class worker.Class
		size  int
	}{{worker.ClassRunnerCrash, 4}, {worker.ClassRunnerCrash, 1}, {worker.ClassOutOfMemory, 1}} {
		t.Run(fmt.Sprint(tt.class, tt.size), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.InferConcurrency, b.runner.Concurrency = 2, 2
				asked := make(chan struct{})
				b.attempts.OnRead = func(ctx context.Context, _ int) error {
					close(asked)
					<-ctx.Done()
					return ctx.Err()
				}
				b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
					return nil, worker.Failf(tt.class, "gone")
				}
				b.source.Add(items(tt.size)...)
				b.start()
				<-asked
				if took := b.stop(); took != 0 {
					t.Errorf("the drain took %s, want no time", took)
				}
				b.wantCounts(0, tt.size)
			})
		})
	}
}

// What was given back while it waited for its record is not recorded: whoever
// has it now would take that for a death.
func TestAbandonedItemIsNotRecorded(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.BatchSize, b.cfg.BatchWait = 1, 0
		b.source.Lease = 3 * time.Second
		b.runner.RunFunc = sleepy(5 * time.Second)
		b.source.AddAttempt(5, items(4)...) // one in the model, one on record, two waiting
		b.start()
		b.finish(4)
		time.Sleep(time.Minute) // fake time
		if n := b.attempts.Writes(); n != 2 {
			t.Errorf("%d commits of starts, want those of the first two items", n)
		}
		b.wantStarted("at the end", map[string]int{})
	})
}
