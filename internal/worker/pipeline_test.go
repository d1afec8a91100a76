package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

func TestEveryItemIsStoredThenAcked(t *testing.T) {
	inBubble(t, func(b *bundle) {
		its := items(100)
		b.source.Add(its...)
		b.start()
		b.finish(len(its))
		b.wantCounts(100, 0)
		for _, it := range its {
			if n := b.runner.Runs(it.Key); n != 1 {
				t.Errorf("item %s was in the model %d times", it.ItemID, n)
			}
			want := fmt.Sprintf(`{"item_id":%q}`, it.ItemID)
			row := b.store.Rows()[it.Key]
			if string(row.Output) != want || row.Worker != "w1" || row.ModelVersion != "fake-1" {
				t.Errorf("row of %s: %+v, want output %s", it.ItemID, row, want)
			}
		}
	})
}

func TestLookUpDecidesWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		name     string
		row      worker.Result
		wantRuns int
	}{
		{"stored by this model", worker.Result{Status: worker.StatusOK, ModelVersion: "fake-1"}, 0},
		{"stored by another model", worker.Result{Status: worker.StatusOK, ModelVersion: "fake-0"}, 1},
		{"failed by this model", worker.Result{Status: worker.StatusFailed, ModelVersion: "fake-1"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				it := jsonItem("r", "a")
				tt.row.Key = it.Key
				b.store.Put(tt.row)
				b.source.Add(it)
				b.start()
				b.finish(1)
				b.wantCounts(1, 0)
				if got := b.runner.Runs(it.Key); got != tt.wantRuns {
					t.Errorf("model runs: got %d, want %d", got, tt.wantRuns)
				}
				b.wantRow("a", worker.StatusOK, "")
			})
		})
	}
}

func TestTwinsShareOneRun(t *testing.T) {
	inBubble(t, func(b *bundle) {
		it := jsonItem("r", "a")
		b.source.Add(it, it, it)
		b.start()
		b.finish(3)
		b.wantCounts(3, 0)
		if got := b.runner.Runs(it.Key); got != 1 {
			t.Errorf("model runs: got %d, want 1", got)
		}
	})
}

func TestTwinOfANackedItemIsNacked(t *testing.T) {
	inBubble(t, func(b *bundle) {
		it := jsonItem("r", "a")
		b.source.Add(it, it)
		b.runner.RunFunc = sleepy(time.Hour)
		b.start()
		b.waitFor("a batch in the model", func() bool { return b.runner.Running() == 1 && b.source.Held() == 2 })
		b.stop()
		b.wantCounts(0, 2)
	})
}

// The fake runner fails the test when one ID is twice in a batch.
func TestOneIDOfTwoRunsIsNeverInOneBatch(t *testing.T) {
	inBubble(t, func(b *bundle) {
		for i := range 8 {
			b.source.Add(jsonItem("r1", fmt.Sprint(i)), jsonItem("r2", fmt.Sprint(i)))
		}
		b.start()
		b.finish(16)
		b.wantCounts(16, 0)
	})
}

func TestBatchesAreFullUnderABacklog(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Add(items(40)...)
		b.runner.RunFunc = sleepy(20 * time.Millisecond)
		b.start()
		b.finish(40)
		for i, batch := range b.runner.Batches() {
			if len(batch) != 4 {
				t.Errorf("batch %d has %d items, want 4", i, len(batch))
			}
		}
	})
}

func TestLoneItemWaitsForMaxWaitExactly(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.start()
		synctest.Wait()
		start := time.Now()
		var ran time.Duration
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			ran = time.Since(start)
			return infertest.Echo(batch), nil
		}
		b.source.Add(jsonItem("r", "a"))
		b.finish(1)
		if ran != b.cfg.BatchWait {
			t.Errorf("a lone item went to the model after %s, want %s", ran, b.cfg.BatchWait)
		}
	})
}

func TestBatchBytesLimitABatch(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.BatchBytes = 10
		b.runner.PrepareFunc = func(_ context.Context, it item.Item) (worker.Input, error) {
			size := map[string]int64{"a0": 4, "a1": 6, "a2": 1, "a3": 99}[it.ItemID]
			return worker.Input{Item: it, Bytes: size}, nil
		}
		b.source.Add(items(4)...)
		b.start()
		b.finish(4)
		for _, batch := range b.runner.Batches() {
			sum := 0
			for _, k := range batch {
				sum += map[string]int{"a0": 4, "a1": 6, "a2": 1, "a3": 99}[k.ItemID]
			}
			if sum > 10 && len(batch) > 1 {
				t.Errorf("batch %v has %d bytes, limit 10", batch, sum)
			}
		}
		b.wantCounts(4, 0)
	})
}

// While there is a backlog the model runs without a pause, although look-up
// and commit take longer than a batch.
func TestModelNeverWaitsForTheStore(t *testing.T) {
	inBubble(t, func(b *bundle) {
		const batchTime, batches = 20 * time.Millisecond, 50
		b.store.OnLookup = func(context.Context, int) error { time.Sleep(8 * time.Millisecond); return nil }
		b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
			time.Sleep(35 * time.Millisecond)
			return workertest.Fault{}
		}
		b.runner.RunFunc = sleepy(batchTime)
		b.source.Add(items(4 * batches)...)
		start := time.Now()
		b.start()
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 4*batches })
		took := time.Since(start)
		b.stop()
		// The first look-up, the batches without a gap, the last commit.
		want := 8*time.Millisecond + batches*batchTime + 35*time.Millisecond
		if took > want+2*time.Millisecond {
			t.Errorf("%d batches took %s, want %s", batches, took, want)
		}
	})
}

func TestInferConcurrency(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.InferConcurrency, b.runner.Concurrency = 3, 3
		b.runner.RunFunc = sleepy(time.Second)
		b.source.Add(items(24)...)
		start := time.Now()
		b.start()
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 24 })
		if took := time.Since(start); took > 2*time.Second+100*time.Millisecond {
			t.Errorf("6 batches of 1 s, 3 at once, took %s", took)
		}
		b.stop()
	})
}

func TestMessageThatCannotBeDecodedIsRecordedThenAcked(t *testing.T) {
	inBubble(t, func(b *bundle) {
		attrs := jsonItem("r", "a").Attributes()
		attrs[item.AttrURI] = "gs://b/o"
		b.source.AddRaw([]byte("data and uri"), attrs)
		b.source.AddRaw([]byte("not json"), jsonItem("r", "b").Attributes())
		attrs = jsonItem("r", "c").Attributes()
		attrs[item.AttrURI] = "gone:x"
		b.source.AddRaw(nil, attrs)
		attrs = jsonItem("r", "d").Attributes()
		attrs[item.AttrURI] = "gs://b/o"
		b.source.AddRaw(nil, attrs)
		b.start()
		b.finish(4)
		b.wantCounts(4, 0)
		for _, id := range []string{"a", "b", "c"} {
			b.wantRow(id, worker.StatusFailed, worker.ClassInvalidInput)
		}
		b.wantRow("d", worker.StatusOK, "")
	})
}

func TestForeignMessageIsBuriedThenAcked(t *testing.T) {
	inBubble(t, func(b *bundle) {
		refusals := 2
		b.source.OnBury = func(context.Context) error {
			if refusals--; refusals >= 0 {
				return errors.New("topic unavailable")
			}
			return nil
		}
		b.source.Redeliver = true
		b.source.AddRaw([]byte("hello"), map[string]string{"who": "me"})
		b.start()
		b.finish(3)
		b.wantCounts(1, 2)
		want := []string{"/: not a spotbatch message: run_id is empty"}
		if diff := cmp.Diff(want, b.source.Buried()); diff != "" {
			t.Errorf("buried (-want +got):\n%s", diff)
		}
	})
}

func TestLostLeaseIsAbandonedExactlyThen(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Lease = 3 * time.Second
		b.runner.RunFunc = sleepy(6 * time.Second)
		b.source.Add(jsonItem("r", "a"))
		start := time.Now()
		b.start()
		b.waitFor("settlement", func() bool { return len(b.source.Settlements()) == 1 })
		got := b.source.Settlements()[0]
		if got.Settlement != worker.Abandon || got.At.Sub(start) != 3*time.Second {
			t.Errorf("settled as %d after %s, want abandoned after 3s", got.Settlement, got.At.Sub(start))
		}
		b.stop()
	})
}

func TestIntakeThatBreaksIsStartedAgain(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.source.Add(jsonItem("r", "a"))
		b.start()
		b.waitFor("settlement", func() bool { return len(b.source.Settlements()) == 1 })
		b.source.Break(nil)
		b.waitFor("second intake", func() bool { return b.source.Receives() == 2 })
		b.source.Break(errors.New("EOF"))
		b.source.Add(jsonItem("r", "b"))
		b.finish(2)
		b.wantCounts(2, 0)
	})
}

// Only breaks in a row make an intake broken: streams end now and then.
func TestIntakeThatBreaksNowAndThenGoesOn(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.start()
		for n := range 20 {
			b.waitFor("intake", func() bool { return b.source.Receives() == n+1 })
			time.Sleep(2 * time.Minute) // fake time
			b.source.Break(errors.New("EOF"))
		}
		b.source.Add(jsonItem("r", "a"))
		b.finish(1)
		b.wantCounts(1, 0)
	})
}

// lateSource delivers only after the stop.
type lateSource struct {
	worker.Source
	got chan worker.Settlement
}

func (s lateSource) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	<-ctx.Done()
	time.Sleep(time.Millisecond)
	it := jsonItem("r", "late")
	s.got <- handle(context.WithoutCancel(ctx), &worker.Delivery{Data: it.Data, Attributes: it.Attributes()})
	return nil
}

func TestDeliveryAfterTheStopIsGivenBack(t *testing.T) {
	inBubble(t, func(b *bundle) {
		got := make(chan worker.Settlement, 1)
		b.change = func(d *worker.Deps) { d.Source = lateSource{d.Source, got} }
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		if took := b.stop(); took > 10*time.Millisecond {
			t.Errorf("drain took %s, want no time", took)
		}
		if s := <-got; s != worker.Nack {
			t.Errorf("settled as %s, want nack", s)
		}
	})
}

func TestPayloadIsFetchedUntilItIsThere(t *testing.T) {
	for _, tt := range []struct {
		name        string
		down        time.Duration
		acks, nacks int
	}{
		{"soon", 3 * time.Second, 1, 0},
		{"too late", time.Hour, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				up := time.Now().Add(tt.down)
				b.change = func(d *worker.Deps) {
					d.Fetcher = fetchFunc(func(context.Context, string) ([]byte, error) {
						if time.Now().Before(up) {
							return nil, worker.Failf(worker.ClassTransient, "503")
						}
						return []byte(`{}`), nil
					})
				}
				attrs := jsonItem("r", "a").Attributes()
				attrs[item.AttrURI] = "gs://b/o"
				b.source.AddRaw(nil, attrs)
				b.start()
				b.finish(1)
				b.wantCounts(tt.acks, tt.nacks)
				if n := len(b.store.Rows()); n != tt.acks {
					t.Errorf("%d rows, want %d", n, tt.acks)
				}
			})
		})
	}
}

// Field case 1.12: an intake that stays broken ends the worker. What may pass is
// given as long as the start; what never will, some tries.
func TestIntakeThatStaysBrokenEndsTheWorker(t *testing.T) {
	gone := worker.Permanent(errors.New("subscription is gone"))
	denied := errors.New("permission denied")
	for _, tt := range []struct {
		err         error
		least, most time.Duration
	}{
		{gone, 8 * time.Second, 12 * time.Second},
		{denied, time.Minute, time.Minute + 5*time.Second},
		{nil, time.Minute, time.Minute + 5*time.Second},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.change = func(d *worker.Deps) { d.Source = brokenSource{d.Source, tt.err} }
				start := time.Now()
				b.start()
				<-b.ended
				if took := time.Since(start); took < tt.least || took > tt.most {
					t.Errorf("gave up after %s, want %s to %s", took, tt.least, tt.most)
				}
				if b.err == nil || !errors.Is(b.err, tt.err) && tt.err != nil {
					t.Errorf("Run: got %v, want %v in its chain", b.err, tt.err)
				}
			})
		})
	}
}

// brokenSource ends at once.
type brokenSource struct {
	worker.Source
	err error
}

func (s brokenSource) Receive(context.Context, func(context.Context, *worker.Delivery) worker.Settlement) error {
	return s.err
}

// cancelled is what a worker.Cancellations answers.
type cancelled struct {
	runs map[string]bool
	err  error
}

func (c cancelled) Cancelled(context.Context) (map[string]bool, error) { return c.runs, c.err }

func TestItemsOfACancelledRunAreSkipped(t *testing.T) {
	for _, err := range []error{nil, errors.New("known from before")} {
		inBubble(t, func(b *bundle) {
			runs := map[string]bool{"gone": true}
			b.source.Cancelled = runs
			b.cancellations = cancelled{runs, err}
			b.source.Add(jsonItem("gone", "a"), jsonItem("r", "a"), jsonItem("gone", "b"))
			b.start()
			b.finish(3)
			b.wantCounts(3, 0)
			if rows := b.store.Rows(); len(rows) != 1 {
				t.Errorf("%d rows, want that of the run that goes on", len(rows))
			}
			b.wantRow("a", worker.StatusOK, "")
			if n := b.runner.Runs(item.Key{RunID: "gone", ItemID: "a"}); n != 0 {
				t.Errorf("an item of the cancelled run was in the model %d times", n)
			}
		})
	}
}

func TestUnknownCancellationsCancelNothing(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cancellations = cancelled{nil, errors.New("unavailable")}
		b.source.Add(items(4)...)
		b.start()
		b.finish(4)
		b.wantRow("a3", worker.StatusOK, "")
	})
}
