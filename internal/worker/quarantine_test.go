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
	inBubble(t, func(b *bundle) {
		b.cfg.InferConcurrency, b.runner.Concurrency = 2, 2
		b.cfg.BatchSize, b.cfg.BatchWait = 1, 0
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			time.Sleep(10 * time.Millisecond) // fake time
			if hasA2(batch) && b.runner.Running() > 1 {
				return nil, worker.Failf(worker.ClassOutOfMemory, "no memory left")
			}
			time.Sleep(10 * time.Millisecond) // fake time
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(8)...)
		b.start()
		b.finish(8)
		b.wantRow("a2", worker.StatusOK, "")
		b.wantStarted("at the end", map[string]int{})
	})
}
