package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

func key(id string) item.Key { return item.Key{RunID: "r", ItemID: id} }

// started returns what is recorded, as started counts by item.
func (b *bundle) started() map[string]int {
	counts := make(map[string]int)
	for k, r := range b.attempts.Records() {
		counts[k.ItemID] = r.Started
	}
	return counts
}

func (b *bundle) wantStarted(when string, want map[string]int) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.started()); diff != "" {
		b.t.Errorf("records %s (-want +got):\n%s", when, diff)
	}
}

// The starts of a batch's suspects, and of nobody else, stand in the table while
// it is in the model, and are gone with their results.
func TestSuspectsAreOnRecordWhileTheyAreInTheModel(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			b.wantStarted("in the model", map[string]int{"a0": 0, "a1": 0})
			return infertest.Echo(batch), nil
		}
		its := items(4)
		b.source.AddAttempt(3, its[0])
		b.source.AddAttempt(7, its[1])
		b.source.AddAttempt(2, its[2])
		b.source.Add(its[3])
		b.start()
		b.finish(4)
		b.wantCounts(4, 0)
		b.wantStarted("at the end", map[string]int{})
		if n := b.attempts.Writes(); n != 1 {
			t.Errorf("%d commits of starts, want one for the batch", n)
		}
		if n := len(b.runner.Batches()); n != 1 {
			t.Errorf("%d batches, want 1", n)
		}
	})
}

// An outage makes suspects of all items. That costs a commit a batch, and no
// batch its size.
func TestSuspicionAloneDoesNotIsolate(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = sleepy(20 * time.Millisecond)
		b.source.AddAttempt(50, items(64)...)
		b.start()
		b.finish(64)
		b.wantCounts(64, 0)
		if batches, writes := len(b.runner.Batches()), b.attempts.Writes(); batches > 17 || writes != batches {
			t.Errorf("%d batches of 4 with %d commits of starts, want about 16 with as many", batches, writes)
		}
	})
}

// Only an item that has a start on record which nobody took back runs alone.
func TestItemWhoseStartNeverCameBackRunsAlone(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.attempts.Set(worker.Attempt{Key: key("a2"), Started: 1, Worker: "dead"})
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				if len(batch) != 1 {
					t.Errorf("a2 is in a batch of %d", len(batch))
				}
				if got := b.started()["a2"]; got != 2 {
					t.Errorf("a2 has %d starts on record while it runs, want 2", got)
				}
			}
			return infertest.Echo(batch), nil
		}
		b.source.AddAttempt(4, items(8)...)
		b.start()
		b.finish(8)
		b.wantCounts(8, 0)
		b.wantRow("a2", worker.StatusOK, "")
		b.wantStarted("at the end", map[string]int{})
		if n := len(b.runner.Batches()); n > 4 {
			t.Errorf("%d batches, want the other seven in full ones", n)
		}
	})
}

// Deaths count across workers: four are on record, the fifth is the last.
func TestDeathsCountAcrossWorkers(t *testing.T) {
	for _, tt := range []struct {
		name string
		// attempt of the delivery; before, what is on record.
		attempt, before int
		runsAlone       int
	}{
		{"the fifth death", 9, 4, 1},
		{"five already", 9, 5, 0},
		{"one so far", 9, 1, 4},
		{"recorded, but delivered for the second time only", 2, 3, 2},
		{"recorded, but delivered for the first time only", 1, 5, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.attempts.Set(worker.Attempt{Key: key("a2"), Started: tt.before, Worker: "dead", Error: "signal: segmentation fault"})
				b.runner.RunFunc = badIn(worker.ClassRunnerCrash)
				b.source.AddAttempt(tt.attempt, items(4)...)
				b.start()
				b.finish(4)
				b.wantCounts(4, 0)
				b.wantRow("a2", worker.StatusFailed, worker.ClassRunnerCrash)
				b.wantRow("a1", worker.StatusOK, "")
				b.wantStarted("at the end", map[string]int{})
				if msg := b.store.Rows()[key("a2")].Message; !strings.Contains(msg, "died 5 times") {
					t.Errorf("message: got %q, want the number of deaths", msg)
				}
				alone := 0
				for _, batch := range b.runner.Batches() {
					if len(batch) == 1 && batch[0] == key("a2") {
						alone++
					}
				}
				if alone != tt.runsAlone {
					t.Errorf("a2 was alone in the model %d times, want %d", alone, tt.runsAlone)
				}
			})
		})
	}
}

// Whatever an item that did not kill anybody goes through, its record is as it
// was when it is given back: a drain, a lost lease, a runner that is away.
func TestStartsOfItemsGivenBackAreTakenBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before map[string]int // on record before
		give   func(b *bundle)
	}{
		{"drain", nil, func(b *bundle) { b.stop() }},
		{"drain of an item in quarantine", map[string]int{"a0": 0}, func(b *bundle) { b.stop() }},
		{"drain of one with deaths", map[string]int{"a0": 4}, func(b *bundle) { b.stop() }},
		{"lost lease", nil, func(b *bundle) { b.waitFor("loss", func() bool { return len(b.source.Settlements()) == 4 }); b.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				want := map[string]int{}
				for id, started := range tt.before {
					b.attempts.Set(worker.Attempt{Key: key(id), Started: started, Worker: "dead"})
					want[id] = started
				}
				b.source.Lease = 10 * time.Minute
				b.cfg.InferTimeout = time.Hour
				b.runner.RunFunc = sleepy(30 * time.Minute)
				its := items(4)
				if tt.before != nil {
					its = its[:1]
				}
				b.source.AddAttempt(5, its...)
				b.start()
				b.waitFor("run", func() bool { return b.runner.Running() == 1 })
				if diff := cmp.Diff(want, b.started()); diff == "" {
					t.Error("nothing was recorded")
				}
				tt.give(b)
				if n := b.source.Count(worker.Ack); n != 0 {
					t.Errorf("%d acks, want none", n)
				}
				b.wantStarted("at the end", want)
			})
		})
	}
}

// An item in quarantine whose runner is away is not in the model while it waits
// for the next try: a worker that is killed then is no death of it.
func TestPauseBetweenTriesIsNoStart(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.attempts.Set(worker.Attempt{Key: key("a0"), Started: 1, Worker: "dead"})
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			b.wantStarted("in the model", map[string]int{"a0": 2})
			return nil, worker.Failf(worker.ClassTransient, "connection refused")
		}
		b.source.AddAttempt(5, items(1)...)
		b.start()
		for n := range 12 {
			b.waitFor("try", func() bool { return len(b.runner.Batches()) > n })
			b.wantStarted("between tries", map[string]int{"a0": 1})
		}
		b.stop()
		b.wantStarted("at the end", map[string]int{"a0": 1})
	})
}

// Deaths of the runner are not forgotten when the item is then given back. The
// first is none, since the item was not in quarantine, and the one in the drain is
// none: the runner may have been stopped, too.
func TestDeathIsOnRecordAfterADrain(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			if len(b.runner.Batches()) == 4 {
				go b.cancel()
				time.Sleep(time.Second) // fake time
			}
			return nil, worker.Failf(worker.ClassRunnerCrash, "signal: killed")
		}
		b.source.Add(items(1)...)
		b.start()
		<-b.ended
		b.checkAllSettled()
		b.wantCounts(0, 1)
		b.wantStarted("at the end", map[string]int{"a0": 2})
	})
}

// A runner that is stopped together with the worker says nothing about the
// item that it had alone, whatever happened to that item before (case 4.5).
func TestRunnerThatDiesInTheDrainFailsNobody(t *testing.T) {
	for _, class := range []worker.Class{worker.ClassRunnerCrash, worker.ClassTransient, worker.ClassBatchError, worker.ClassProtocolError} {
		t.Run(string(class), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.BatchSize, b.cfg.MaxItemCrashes, b.cfg.MaxItemFailures = 1, 2, 2
				stopped := make(chan struct{})
				b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
					if len(b.runner.Batches()) == 2 {
						<-stopped
						time.Sleep(time.Millisecond) // fake time
					}
					return nil, worker.Failf(class, "gone")
				}
				b.source.Add(jsonItem("r", "a"))
				b.start()
				b.waitFor("second run", func() bool { return len(b.runner.Batches()) == 2 })
				close(stopped)
				if took := b.stop(); took > 10*time.Millisecond {
					t.Errorf("drain took %s, want about 1ms", took)
				}
				b.wantCounts(0, 1)
				if n := len(b.store.Rows()); n != 0 {
					t.Errorf("%d rows, want none: the item was given back", n)
				}
			})
		})
	}
}

// Another worker's record is not undone.
func TestTakeBackLeavesOthersRecordsAlone(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = sleepy(time.Minute)
		b.source.AddAttempt(5, items(1)...)
		b.start()
		b.waitFor("run", func() bool { return b.runner.Running() == 1 })
		b.attempts.Set(worker.Attempt{Key: key("a0"), Started: 2, Worker: "w2"})
		b.stop()
		b.wantStarted("at the end", map[string]int{"a0": 2})
	})
}

// The record is taken back before the delivery is nacked: who gets the message
// next, which may be at once, would take it for a death.
func TestRecordIsTakenBackBeforeTheNack(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.InferTimeout = time.Second
		b.source.Redeliver = true
		b.attempts.OnTakeBack = func(context.Context, int) workertest.Fault {
			time.Sleep(30 * time.Millisecond) // fake time
			return workertest.Fault{}
		}
		runs := 0
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if runs++; runs > 40 {
				return infertest.Echo(batch), nil
			}
			b.wantStarted("in the model", map[string]int{"a0": 0})
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.source.AddAttempt(3, items(1)...)
		b.start()
		b.waitFor("ack", func() bool { return b.source.Count(worker.Ack) == 1 })
		b.stop()
		b.wantRow("a0", worker.StatusOK, "")
		b.wantCounts(1, 40)
	})
}

// Another delivery of the item that comes meanwhile shares the fate of the first:
// it would take the record for a death, too.
func TestTwinThatComesBeforeTheNackFindsNoDeath(t *testing.T) {
	for _, end := range []worker.Settlement{worker.Nack, worker.Abandon} {
		t.Run(end.String(), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.cfg.InferTimeout = 1010 * time.Millisecond
				if end == worker.Abandon {
					b.source.Lease = time.Second
				}
				b.attempts.Set(worker.Attempt{Key: key("a0"), Started: 1, Worker: "dead"})
				b.source.Redeliver = true
				b.attempts.OnTakeBack = func(context.Context, int) workertest.Fault {
					if len(b.runner.Batches()) <= 10 {
						b.source.AddAttempt(5, items(1)...)
					}
					time.Sleep(30 * time.Millisecond) // fake time
					return workertest.Fault{}
				}
				b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
					b.wantStarted("in the model", map[string]int{"a0": 2})
					if len(b.runner.Batches()) > 10 {
						return infertest.Echo(batch), nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}
				b.source.AddAttempt(5, items(1)...)
				b.start()
				b.waitFor("row", func() bool { return len(b.store.Rows()) > 0 })
				b.stop()
				b.wantRow("a0", worker.StatusOK, "")
				b.wantStarted("at the end", map[string]int{})
			})
		})
	}
}

// A drain waits for that for a second.
func TestNackWaitsASecondForItsRecord(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.attempts.OnTakeBack = func(context.Context, int) workertest.Fault {
			time.Sleep(3 * time.Second) // fake time
			return workertest.Fault{}
		}
		b.runner.RunFunc = sleepy(time.Minute)
		b.source.AddAttempt(5, items(12)...) // three batches: in the model, on record, waiting
		b.start()
		b.waitFor("run", func() bool { return b.runner.Running() == 1 && len(b.started()) == 8 })
		begin := time.Now()
		b.cancel()
		<-b.ended
		var at []time.Duration
		for _, s := range b.source.Settlements() {
			at = append(at, s.At.Sub(begin))
		}
		last := b.cfg.HardStop + 250*time.Millisecond
		want := []time.Duration{0, 0, 0, 0, time.Second, time.Second, time.Second, time.Second, last, last, last, last}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("nacks after (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute) // fake time: for what was left behind
	})
}

// A record that arrives after its item was given back is taken back as well,
// whether its writer was told so or not.
func TestLateRecordIsTakenBack(t *testing.T) {
	for _, fault := range []workertest.Fault{{}, {Err: workertest.ErrUnavailable, Kept: true}} {
		t.Run(fmt.Sprint(fault.Err), func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				entered := make(chan struct{})
				b.attempts.OnRecord = func(_ context.Context, n int) workertest.Fault {
					if n == 0 {
						close(entered)
						time.Sleep(500 * time.Millisecond) // fake time: the drain comes first
					}
					return fault
				}
				b.cfg.HardStop = 3 * time.Second
				b.source.AddAttempt(5, items(2)...)
				// This one keeps the drain going.
				b.source.Add(jsonItem("r", "slow"))
				b.runner.RunFunc = sleepy(2 * time.Second)
				b.cfg.BatchSize = 1
				b.start()
				<-entered
				begin := time.Now()
				b.stop()
				b.wantStarted("at the end", map[string]int{})
				// What is on its way is waited for, like any take-back.
				wait := 500 * time.Millisecond
				if fault.Err != nil {
					wait = time.Second
				}
				if s := b.source.Settlements(); !slices.ContainsFunc(s, func(s workertest.Settled) bool { return s.At.Sub(begin) == wait }) {
					t.Errorf("no nack after %s: %v", wait, s)
				}
				for _, batch := range b.runner.Batches() {
					if slices.Contains(batch, key("a0")) {
						t.Error("an item that was given back went into the model")
					}
				}
			})
		})
	}
}

// What cannot be recorded does not run.
func TestSuspectThatCannotBeRecordedIsGivenBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(a *workertest.Attempts)
	}{
		{"not read", func(a *workertest.Attempts) {
			a.OnRead = func(context.Context, int) error { return workertest.ErrUnavailable }
		}},
		{"not written", func(a *workertest.Attempts) {
			a.OnRecord = func(context.Context, int) workertest.Fault {
				return workertest.Fault{Err: workertest.ErrUnavailable}
			}
		}},
		{"written, and not answered", func(a *workertest.Attempts) {
			a.OnRecord = func(context.Context, int) workertest.Fault {
				return workertest.Fault{Err: workertest.ErrUnavailable, Kept: true}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				tt.fault(b.attempts)
				its := items(4)
				b.source.AddAttempt(5, its[:2]...)
				b.source.Add(its[2:]...)
				b.start()
				b.finish(4)
				if n := b.source.Count(worker.Nack); n < 2 {
					t.Errorf("%d nacks, want at least those of the suspects", n)
				}
				if n := b.runner.Runs(key("a0")); n != 0 {
					t.Errorf("a0 ran %d times without a record", n)
				}
				b.wantStarted("at the end", map[string]int{})
			})
		})
	}
}

// The records of a drain that meets a silent store do not hold it up.
func TestDrainDoesNotWaitForRecords(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.attempts.OnTakeBack = func(ctx context.Context, _ int) workertest.Fault {
			<-ctx.Done()
			return workertest.Fault{Err: ctx.Err()}
		}
		b.runner.RunFunc = sleepy(time.Minute)
		b.source.AddAttempt(5, items(4)...)
		b.start()
		b.waitFor("run", func() bool { return b.runner.Running() == 1 })
		if took, want := b.stop(), b.cfg.HardStop+1500*time.Millisecond; took != want {
			t.Errorf("the drain took %s, want %s", took, want)
		}
		b.wantCounts(0, 4)
		time.Sleep(time.Minute) // fake time: for the goroutine that was left behind
	})
}
