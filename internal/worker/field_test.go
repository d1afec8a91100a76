package worker_test

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

// The tests of this file are cases of docs/field-cases.md that belong to no
// single stage.

// Wherever an item waits for the next stage to take it, the stop gives it back
// in the same instant (case 1.5).
func TestDrainGivesBackFromEveryHandOver(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tt := range []struct {
		name  string
		block func(b *bundle)
		// kept stay in the model.
		kept int
	}{
		{"look-up", func(b *bundle) {
			b.store.OnLookup = func(ctx context.Context, _ int) error { return hang(ctx) }
		}, 0},
		{"fetch", func(b *bundle) {
			b.change = func(d *worker.Deps) {
				d.Fetcher = fetchFunc(func(ctx context.Context, _ string) ([]byte, error) { return nil, hang(ctx) })
			}
		}, 0},
		{"preparation", func(b *bundle) {
			b.runner.PrepareFunc = func(ctx context.Context, _ item.Item) (worker.Input, error) {
				return worker.Input{}, hang(ctx)
			}
		}, 0},
		{"model", func(b *bundle) { b.runner.RunFunc = sleepy(time.Hour) }, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				tt.block(b)
				for _, it := range items(64) {
					attrs := it.Attributes()
					attrs[item.AttrURI] = "gs://b/" + it.ItemID
					b.source.AddRaw(nil, attrs)
				}
				b.start()
				b.waitFor("full house", func() bool { return b.source.Held() == 64 })
				time.Sleep(time.Second) // fake time; everything has gone as far as it can
				start := time.Now()
				b.stop()
				b.wantCounts(0, 64)
				late := 0
				for _, s := range b.source.Settlements() {
					if s.At.After(start) {
						late++
					}
				}
				if late != tt.kept {
					t.Errorf("%d items were not given back at once, want %d", late, tt.kept)
				}
			})
		})
	}
}

// Items that fail for ever take places for a while, and then make room: with
// four places and four such items in front, the good ones get through (case
// 1.14). What the failure says of the item decides how it ends.
func TestFailingItemsDoNotStarveGoodOnes(t *testing.T) {
	for _, tt := range []struct {
		class worker.Class
		// alone is how often each is run by itself.
		alone int
	}{
		{worker.ClassBatchError, 3},
		{worker.ClassItemError, 1},
		{worker.ClassRunnerCrash, 5},
	} {
		t.Run(string(tt.class), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.MaxHeld, b.cfg.BatchSize, b.source.MaxHeld = 4, 2, 4
				b.source.Redeliver = true
				alone := make(map[string]int)
				b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
					for _, in := range batch {
						if !strings.HasPrefix(in.Item.ItemID, "bad") {
							continue
						}
						if len(batch) == 1 {
							alone[in.Item.ItemID]++
						}
						return nil, worker.Failf(tt.class, "never")
					}
					return infertest.Echo(batch), nil
				}
				bad := []string{"bad0", "bad1", "bad2", "bad3"}
				for _, id := range bad {
					b.source.Add(jsonItem("r", id))
				}
				b.source.Add(items(100)...)
				start := time.Now()
				b.start()
				good := func() (n int) {
					for _, row := range b.store.Rows() {
						if row.Status == worker.StatusOK {
							n++
						}
					}
					return n
				}
				b.waitFor("good items", func() bool { return good() == 100 })
				if took := time.Since(start); took > time.Second {
					t.Errorf("the good items took %s, want less than 1s", took)
				}
				b.stop()
				for _, id := range bad {
					b.wantRow(id, worker.StatusFailed, tt.class)
					if alone[id] != tt.alone {
						t.Errorf("%s was run alone %d times, want %d", id, alone[id], tt.alone)
					}
				}
			})
		})
	}
}

// A failure is acked once its row is stored, and given back otherwise (case
// 1.16). The source fails the test on an ack without a row.
func TestFailureIsAckedOnlyWhenRecorded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		failures int
		kept     bool
		nacks    int
	}{
		{"commit lost", 1, false, 0},
		{"answer lost", 1, true, 0},
		{"store away", math.MaxInt, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.source.Redeliver = true
				var back atomic.Bool
				b.store.OnCommit = func(_ context.Context, n int, _ []worker.Result) workertest.Fault {
					if !back.Load() && n < tt.failures {
						return workertest.Fault{Kept: tt.kept, Err: workertest.ErrUnavailable}
					}
					return workertest.Fault{}
				}
				b.source.AddRaw([]byte("not json"), jsonItem("r", "a").Attributes())
				b.start()
				if tt.nacks > 0 {
					b.waitFor("nack", func() bool { return b.source.Count(worker.Nack) >= tt.nacks })
					back.Store(true)
				}
				b.waitFor("ack", func() bool { return b.source.Count(worker.Ack) == 1 })
				b.stop()
				// It may come back more than once until the intake has paused.
				if got := b.source.Count(worker.Nack); got < tt.nacks || tt.nacks == 0 && got > 0 {
					t.Errorf("nacks: got %d, want %d", got, tt.nacks)
				}
				b.wantRow("a", worker.StatusFailed, worker.ClassInvalidInput)
			})
		})
	}
}

// A commit that is made again does nothing twice: its items are counted once,
// and acked after the try that was answered (case 2.7).
func TestRepeatedCommitCountsOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		failures int
		kept     bool
		want     int64
	}{
		{"lost twice", 2, false, 8},
		{"kept twice", 2, true, 8},
		{"lost for ever", math.MaxInt, false, 0},
		{"kept for ever", math.MaxInt, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				reader := metric.NewManualReader()
				b.change = func(d *worker.Deps) { d.Meter = metric.NewMeterProvider(metric.WithReader(reader)) }
				b.cfg.BatchSize = 8
				var answered time.Time
				b.store.OnCommit = func(_ context.Context, n int, _ []worker.Result) workertest.Fault {
					time.Sleep(time.Second)
					if n < tt.failures {
						return workertest.Fault{Kept: tt.kept, Err: workertest.ErrUnavailable}
					}
					answered = time.Now()
					return workertest.Fault{}
				}
				b.source.Add(items(8)...)
				b.start()
				b.finish(8)
				b.wantCounts(int(tt.want), 8-int(tt.want))
				for _, s := range b.source.Settlements() {
					if s.Settlement == worker.Ack && s.At.Before(answered) {
						t.Errorf("%s was acked %s before its commit was answered", s.MessageID, answered.Sub(s.At))
					}
				}
				if got := count(t, reader, "spotbatch.items", "ok"); got != tt.want {
					t.Errorf("%d items were counted as ok, want %d", got, tt.want)
				}
			})
		})
	}
}

// count reads a counter for an outcome.
func count(t *testing.T, reader metric.Reader, name, outcome string) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != name || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				if v, _ := point.Attributes.Value("outcome"); v.AsString() == outcome {
					return point.Value
				}
			}
		}
	}
	t.Fatalf("no counter %s with outcome %s", name, outcome)
	return 0
}

// Memory that runs out by what the items of a batch need together: all that
// fit are stored, the one that fits nowhere fails, and the size that was
// learned is kept (case 3.1).
func TestOutOfMemoryBySizeOfItems(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.BatchSize = 16
		size := func(in worker.Input) int {
			if in.Item.ItemID == "a2" {
				return 100
			}
			return 1
		}
		tooLarge := make(map[byte]int) // by the first letter of its items
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			sum := 0
			for _, in := range batch {
				sum += size(in)
			}
			if sum > 8 {
				tooLarge[batch[0].Item.ItemID[0]]++
				return nil, worker.Failf(worker.ClassOutOfMemory, "no memory")
			}
			return infertest.Echo(batch), nil
		}
		for i, letter := range []string{"a", "b", "c"} {
			for _, it := range items(16) {
				it.ItemID = letter + it.ItemID[1:]
				b.source.Add(it)
			}
			if i == 0 {
				b.start()
			}
			b.waitFor("settlements", func() bool { return b.source.Count(worker.Ack) == 16*(i+1) })
		}
		b.stop()
		for _, row := range b.store.Rows() {
			if row.Key.ItemID == "a2" {
				b.wantRow("a2", worker.StatusFailed, worker.ClassOutOfMemory)
			} else {
				b.wantRow(row.Key.ItemID, worker.StatusOK, "")
			}
		}
		// The huge item's batch: 16, 8, 4, 2, 1. The next one teaches 8.
		if tooLarge['a'] != 5 || tooLarge['b'] != 1 || tooLarge['c'] != 0 {
			t.Errorf("batches that did not fit: %v of the first, second and third 16 items, want 5, 1, 0", tooLarge)
		}
	})
}

// A model that goes on after its time-out keeps its place: nothing else is sent
// to it meanwhile (case 3.13). The fake fails the test on two runs at once.
func TestRunThatOutlivesItsTimeOutKeepsItsPlace(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.InferTimeout = time.Second
		first := true
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if first {
				first = false
				time.Sleep(11 * time.Second)
				return nil, ctx.Err()
			}
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(8)...)
		b.start()
		b.finish(8)
		b.wantCounts(8, 0)
	})
}
