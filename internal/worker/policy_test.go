package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// hasA2 reports whether the item a2 is in the batch.
func hasA2(batch []worker.Input) bool {
	return slices.ContainsFunc(batch, func(in worker.Input) bool { return in.Item.ItemID == "a2" })
}

// badIn fails each batch that holds the item a2, in the way of the class.
func badIn(class worker.Class) func(context.Context, []worker.Input) ([]worker.Output, error) {
	return func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
		if hasA2(batch) {
			return nil, worker.Failf(class, "a2 is bad")
		}
		return infertest.Echo(batch), nil
	}
}

// TestOneBadItemCostsOnlyItself is the failure table, row by row: a2 is bad,
// its neighbours are stored and acked.
func TestOneBadItemCostsOnlyItself(t *testing.T) {
	answer := func(change func(outs []worker.Output, i int) []worker.Output) func(context.Context, []worker.Input) ([]worker.Output, error) {
		return func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			outs := infertest.Echo(batch)
			for i, in := range batch {
				if in.Item.ItemID == "a2" {
					outs = change(outs, i)
				}
			}
			return outs, nil
		}
	}
	for _, tt := range []struct {
		name  string
		run   func(context.Context, []worker.Input) ([]worker.Output, error)
		class worker.Class
		alone int // how often a2 is alone in the model
	}{
		{"batch error", badIn(worker.ClassBatchError), worker.ClassBatchError, 3},
		{"unclassed error", func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				return nil, errors.New("something")
			}
			return infertest.Echo(batch), nil
		}, worker.ClassBatchError, 3},
		{"panic", func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				panic("index out of range")
			}
			return infertest.Echo(batch), nil
		}, worker.ClassBatchError, 3},
		{"out of memory", badIn(worker.ClassOutOfMemory), worker.ClassOutOfMemory, 1},
		{"runner crash", badIn(worker.ClassRunnerCrash), worker.ClassRunnerCrash, 5},
		{"one result missing", answer(func(outs []worker.Output, i int) []worker.Output {
			return slices.Delete(outs, i, i+1)
		}), worker.ClassProtocolError, 3},
		{"result for another item", answer(func(outs []worker.Output, i int) []worker.Output {
			outs[i].ItemID = "zz"
			return outs
		}), worker.ClassProtocolError, 3},
		{"two results for one item", answer(func(outs []worker.Output, i int) []worker.Output {
			return append(outs, outs[i])
		}), worker.ClassProtocolError, 3},
		{"NaN in the output", answer(func(outs []worker.Output, i int) []worker.Output {
			outs[i].Value = []byte(`[NaN]`)
			return outs
		}), worker.ClassInvalidOutput, 1},
		{"no output at all", answer(func(outs []worker.Output, i int) []worker.Output {
			outs[i].Value = nil
			return outs
		}), worker.ClassInvalidOutput, 1},
		{"bytes that are not UTF-8", answer(func(outs []worker.Output, i int) []worker.Output {
			outs[i].Value = []byte("\"\xff\"")
			return outs
		}), worker.ClassInvalidOutput, 1},
		{"error of the item", answer(func(outs []worker.Output, i int) []worker.Output {
			outs[i].Value, outs[i].Err = nil, errors.New("too blurred")
			return outs
		}), worker.ClassItemError, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.runner.RunFunc = tt.run
				b.source.Add(items(8)...)
				b.start()
				b.finish(8)
				b.wantCounts(8, 0)
				for _, it := range items(8) {
					if it.ItemID == "a2" {
						b.wantRow("a2", worker.StatusFailed, tt.class)
					} else {
						b.wantRow(it.ItemID, worker.StatusOK, "")
					}
				}
				alone := 0
				for _, batch := range b.runner.Batches() {
					if len(batch) == 1 && batch[0].ItemID == "a2" {
						alone++
					}
				}
				if alone != tt.alone {
					t.Errorf("a2 was alone in the model %d times, want %d", alone, tt.alone)
				}
			})
		})
	}
}

func TestPanicOfPrepareFailsTheItem(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.PrepareFunc = func(_ context.Context, it item.Item) (worker.Input, error) {
			if it.ItemID == "a2" {
				panic("decoder")
			}
			return worker.Input{Item: it}, nil
		}
		b.source.Add(items(4)...)
		b.start()
		b.finish(4)
		b.wantRow("a2", worker.StatusFailed, worker.ClassInvalidInput)
		b.wantRow("a3", worker.StatusOK, "")
	})
}

func TestOutOfMemoryLowersTheCeilingForGood(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.BatchSize = 16
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if len(batch) > 5 {
				return nil, worker.Failf(worker.ClassOutOfMemory, "no memory")
			}
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(64)...)
		b.start()
		b.finish(64)
		b.wantCounts(64, 0)
		tooLarge := 0
		for _, batch := range b.runner.Batches() {
			if len(batch) > 5 {
				tooLarge++
			}
		}
		// 16, then 8; from then on at most 4. The batch that was ready when
		// the ceiling fell is cut before it runs.
		if tooLarge != 2 {
			t.Errorf("%d batches were too large, want 2", tooLarge)
		}
	})
}

// One item that fits no batch costs its own batch some runs, and not all
// later ones their size.
func TestItemTooLargeForMemoryDoesNotLowerTheCeiling(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.BatchSize = 16
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				return nil, worker.Failf(worker.ClassOutOfMemory, "no memory")
			}
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(16)...)
		b.start()
		b.waitFor("settlements", func() bool { return b.source.Count(worker.Ack) == 16 })
		b.wantRow("a2", worker.StatusFailed, worker.ClassOutOfMemory)
		for i := range 16 {
			b.source.Add(jsonItem("r", fmt.Sprintf("b%d", i)))
		}
		b.finish(32)
		batches := b.runner.Batches()
		if last := batches[len(batches)-1]; len(last) != 16 {
			t.Errorf("the last batch has %d items, want 16", len(last))
		}
	})
}

func TestModelLimitsTheBatch(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.Info.MaxBatch = 3 // the fake fails the test on a larger batch
		b.source.Add(items(20)...)
		b.start()
		b.finish(20)
		b.wantCounts(20, 0)
	})
}

// Failures that are nobody's fault never count against an item, however often
// they happen.
func TestTransientFailuresNeverFailAnItem(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   func(ctx context.Context) error
		nacks int // at most
	}{
		// The item is the one that is kept for a minute to find out when the runner
		// is back.
		{"overloaded", func(context.Context) error { return worker.Failf(worker.ClassTransient, "429") }, 3},
		{"too slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 40},
		{"killed for being slow", func(ctx context.Context) error { <-ctx.Done(); return errors.New("signal: killed") }, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.InferTimeout = time.Second
				b.source.Redeliver = true
				runs := 0
				b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
					if runs++; runs <= 40 {
						return nil, tt.err(ctx)
					}
					return infertest.Echo(batch), nil
				}
				b.source.Add(jsonItem("r", "a0"))
				b.start()
				b.waitFor("ack", func() bool { return b.source.Count(worker.Ack) == 1 })
				b.stop()
				b.wantRow("a0", worker.StatusOK, "")
				if got := b.source.Count(worker.Nack); got > tt.nacks {
					t.Errorf("nacks: got %d, want at most %d", got, tt.nacks)
				}
			})
		})
	}
}

// Items whose own answer is a transient error for ever do not keep the model
// from the others (case 1.14).
func TestItemThatIsAlwaysTransientIsGivenBack(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.MaxHeld, b.cfg.BatchSize, b.source.MaxHeld = 4, 2, 4
		b.source.Redeliver = true
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			outs := infertest.Echo(batch)
			for i, in := range batch {
				if strings.HasPrefix(in.Item.ItemID, "bad") {
					outs[i].Value, outs[i].Err = nil, worker.Failf(worker.ClassTransient, "429")
				}
			}
			return outs, nil
		}
		for i := range 4 {
			b.source.Add(jsonItem("r", fmt.Sprintf("bad%d", i)))
		}
		b.source.Add(items(100)...)
		b.start()
		b.waitFor("good items", func() bool { return len(b.store.Rows()) == 100 })
		b.stop()
	})
}

func TestBrokenDeviceStopsTheWorker(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			return nil, worker.Failf(worker.ClassDevice, "CUDA error 700")
		}
		b.source.Add(items(64)...)
		b.start()
		<-b.ended
		if !errors.Is(b.err, worker.ErrDevice) || !strings.Contains(b.err.Error(), "CUDA error 700") {
			t.Errorf("Run: got %v, want ErrDevice with the reason", b.err)
		}
		b.checkAllSettled()
		if rows := b.store.Rows(); len(rows) != 0 {
			t.Errorf("%d rows were written, want none", len(rows))
		}
		b.wantCounts(0, 64)
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d batches went to the broken device, want 1", n)
		}
	})
}

// A model that does not come back, however long it is waited for, takes the
// worker with it instead of holding its items for ever.
func TestModelThatNeverComesBackIsABrokenDevice(t *testing.T) {
	inBubble(t, func(b *bundle) {
		released := make(chan struct{})
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			<-released
			return nil, errors.New("too late")
		}
		b.source.Add(items(64)...)
		start := time.Now()
		b.start()
		b.waitFor("nacks", func() bool { return b.source.Count(worker.Nack) == 64 })
		if took := time.Since(start); took < b.cfg.InferTimeout || took > 3*b.cfg.InferTimeout {
			t.Errorf("given back after %s, want some time after infer.timeout (%s)", took, b.cfg.InferTimeout)
		}
		<-b.ended
		close(released)
		if !errors.Is(b.err, worker.ErrDevice) {
			t.Errorf("Run: got %v, want ErrDevice", b.err)
		}
	})
}

// An error of one item that is nobody's fault, or that only counts alone, is
// no verdict on the item.
func TestErrorOfOneItemIsAVerdictOnlyWhenItIsAboutTheItem(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		// fails is how often a2 gets err; wantRuns how often it is run.
		fails, wantRuns int
		status          worker.Status
		class           worker.Class
	}{
		{"overloaded", worker.Failf(worker.ClassTransient, "429"), 3, 4, worker.StatusOK, ""},
		{"time-out", context.DeadlineExceeded, 3, 4, worker.StatusOK, ""},
		{"no memory beside the others", worker.Failf(worker.ClassOutOfMemory, "no memory"), 1, 2, worker.StatusOK, ""},
		{"no memory alone", worker.Failf(worker.ClassOutOfMemory, "no memory"), 9, 2, worker.StatusFailed, worker.ClassOutOfMemory},
		{"crash", worker.Failf(worker.ClassRunnerCrash, "gone"), 9, 7, worker.StatusFailed, worker.ClassRunnerCrash},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				failed := 0
				b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
					outs := infertest.Echo(batch)
					for i, in := range batch {
						if in.Item.ItemID == "a2" && failed < tt.fails {
							failed++
							outs[i].Value, outs[i].Err = nil, tt.err
						}
					}
					return outs, nil
				}
				b.source.Add(items(4)...)
				b.start()
				b.finish(4)
				b.wantCounts(4, 0)
				b.wantRow("a2", tt.status, tt.class)
				b.wantRow("a1", worker.StatusOK, "")
				if runs := b.runner.Runs(item.Key{RunID: "r", ItemID: "a2"}); runs != tt.wantRuns {
					t.Errorf("a2 was in the model %d times, want %d", runs, tt.wantRuns)
				}
				if runs := b.runner.Runs(item.Key{RunID: "r", ItemID: "a1"}); runs != 1 {
					t.Errorf("a1 was in the model %d times, want 1", runs)
				}
			})
		})
	}
}

// A hang that ends with a sign of what it was is not taken for slowness.
func TestBrokenDeviceIsOneAlsoAfterATimeOut(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(ctx context.Context, _ []worker.Input) ([]worker.Output, error) {
			<-ctx.Done()
			return nil, worker.Failf(worker.ClassDevice, "CUDA error 719")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("nacks", func() bool { return b.source.Count(worker.Nack) == 4 })
		b.stop()
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d batches went to the broken device, want 1", n)
		}
	})
}

func TestBrokenDeviceOfOneItemStopsTheWorker(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			outs := infertest.Echo(batch)
			outs[0].Value, outs[0].Err = nil, worker.Failf(worker.ClassDevice, "CUDA error 700")
			return outs, nil
		}
		b.source.Add(items(4)...)
		b.start()
		<-b.ended
		if !errors.Is(b.err, worker.ErrDevice) {
			t.Errorf("Run: got %v, want ErrDevice", b.err)
		}
		b.checkAllSettled()
		b.wantCounts(3, 1)
	})
}

// What a broken device still answers is not believed.
func TestResultsAfterTheDeviceBrokeAreNotStored(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.InferConcurrency, b.runner.Concurrency = 2, 2
		b.cfg.BatchSize = 1
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				time.Sleep(10 * time.Millisecond) // fake time: a1 is in the model, too
				return nil, worker.Failf(worker.ClassDevice, "CUDA error 700")
			}
			time.Sleep(20 * time.Millisecond) // fake time
			return infertest.Echo(batch), nil
		}
		// Acks and nacks take their time, so that the pipeline lives on.
		b.change = func(d *worker.Deps) { d.Source = slowSource{d.Source} }
		b.source.Add(jsonItem("r", "a2"), jsonItem("r", "a1"))
		b.start()
		<-b.ended
		if rows := b.store.Rows(); len(rows) != 0 {
			t.Errorf("rows %v, want none", rows)
		}
	})
}

// slowSource is slow to end.
type slowSource struct{ worker.Source }

func (s slowSource) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	defer time.Sleep(time.Second) // fake time
	return s.Source.Receive(ctx, handle)
}
