package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

// While the runner is away one item is kept to find out when it is back, and
// everything else is somebody else's: nothing is pulled, and the worker is not
// ready.
func TestRunnerThatIsAwayPausesPulling(t *testing.T) {
	inBubble(t, func(b *bundle) {
		start := time.Now()
		const outage = 50 * time.Second
		b.runner.RunFunc = func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			if time.Since(start) < outage {
				return nil, worker.Failf(worker.ClassTransient, "connection refused")
			}
			return infertest.Echo(batch), nil
		}
		b.source.Redeliver = true
		b.source.Add(items(64)...)
		b.start()
		b.waitFor("pause", func() bool { return b.source.Count(worker.Nack) > 0 })
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("paused after %s, want about 3s", took)
		}
		time.Sleep(outage / 2) // fake time
		if held := b.source.Held(); held != 1 || b.worker.Ready() {
			t.Errorf("%d items held, ready %t; want one item and not ready", held, b.worker.Ready())
		}
		if last := b.runner.Batches(); len(last[len(last)-1]) != 1 {
			t.Errorf("the last try had %d items, want 1", len(last[len(last)-1]))
		}
		b.waitFor("acks", func() bool { return b.source.Count(worker.Ack) == 64 })
		if late := time.Since(start) - outage; late > 7*time.Second {
			t.Errorf("done %s after the outage, want some seconds", late)
		}
		if !b.worker.Ready() {
			t.Error("not ready after the outage")
		}
		// Some of the first batch come back before pulling pauses.
		if got := b.source.Count(worker.Nack); got > 63+4 {
			t.Errorf("%d nacks in the outage, want about one for each item but the one that was kept", got)
		}
		b.stop()
	})
}

// The item that is kept is another worker's after a minute; then it is the next
// one's turn.
func TestProbeIsGivenBackAfterAMinute(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			return nil, worker.Failf(worker.ClassTransient, "connection refused")
		}
		b.source.Redeliver = true
		b.source.Add(items(8)...)
		start := time.Now()
		b.start()
		b.waitFor("first pause", func() bool { return b.source.Held() == 1 && !b.worker.Ready() })
		b.waitFor("end of the probe", b.worker.Ready)
		if took := time.Since(start); took < time.Minute || took > 75*time.Second {
			t.Errorf("the probe was given back after %s, want about 1m", took)
		}
		b.waitFor("next pause", func() bool { return b.source.Held() == 1 && !b.worker.Ready() })
		if took := b.stop(); took != 0 {
			t.Errorf("the drain took %s, want no time", took)
		}
	})
}

// An item for which the runner always claims to be overloaded costs its
// neighbours a run, and pauses nothing.
func TestItemThatIsAlwaysRefusedCostsItsNeighboursOneRun(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = badIn(worker.ClassTransient)
		b.source.Add(items(12)...)
		start := time.Now()
		b.start()
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 12 })
		b.wantCounts(11, 1)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %s, want some seconds", took)
		}
		if !b.worker.Ready() || b.source.Receives() != 1 {
			t.Error("one item that is refused paused pulling")
		}
		b.stop()
	})
}

// While the store is away it is asked now and then, and nothing is pulled for
// the purpose.
func TestStoreThatIsAwayPausesPulling(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lookup bool // the look-ups fail, too
	}{{"all of it", true}, {"commits only", false}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				start := time.Now()
				const outage = 10 * time.Minute
				away := func() bool { return time.Since(start) < outage }
				if tt.lookup {
					b.store.OnLookup = func(context.Context, int) error {
						if away() {
							return workertest.ErrUnavailable
						}
						return nil
					}
				}
				b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
					if away() {
						return workertest.Fault{Err: workertest.ErrUnavailable}
					}
					return workertest.Fault{}
				}
				b.source.Redeliver = true
				b.source.Add(items(8)...)
				b.start()
				b.waitFor("pause", func() bool { return b.source.Count(worker.Nack) >= 8 })
				if took := time.Since(start); took < 15*time.Second || took > 21*time.Second {
					t.Errorf("given back after %s, want commit.timeout (20s)", took)
				}
				if b.worker.Ready() {
					t.Error("ready while the store is away")
				}
				b.waitFor("acks", func() bool { return b.source.Count(worker.Ack) == 8 })
				if late := time.Since(start) - outage; late > 90*time.Second {
					t.Errorf("done %s after the outage, want about a minute at most", late)
				}
				// Commits can be tried with results only.
				most := 1
				if !tt.lookup {
					most = 20
				}
				if n := b.source.Receives() - 1; n > most {
					t.Errorf("pulled %d times in the outage, want at most %d", n, most)
				}
				b.stop()
			})
		})
	}
}

// One item that hangs until infer.timeout costs its neighbours one run.
func TestItemThatHangsCostsItsNeighboursOneRun(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if hasA2(batch) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(8)...)
		start := time.Now()
		b.start()
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 8 })
		b.wantCounts(7, 1)
		if took, want := time.Since(start), 2*b.cfg.InferTimeout+time.Second; took > want {
			t.Errorf("took %s, want twice infer.timeout", took)
		}
		if !b.worker.Ready() || b.source.Receives() != 1 {
			t.Error("one item that hangs paused pulling")
		}
		b.stop()
	})
}

// A runner that hangs whatever it is given is away.
func TestRunnerThatHangsPausesPulling(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(ctx context.Context, _ []worker.Input) ([]worker.Output, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.source.Add(items(64)...)
		start := time.Now()
		b.start()
		b.waitFor("nacks", func() bool { return b.source.Count(worker.Nack) == 64 })
		if took := time.Since(start); took > 3*b.cfg.InferTimeout+time.Second {
			t.Errorf("given back after %s, want three times infer.timeout", took)
		}
		b.stop()
	})
}

// Items that hang pause nothing as long as others between them do not.
func TestItemsThatHangNowAndThenPauseNothing(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if n := len(b.runner.Batches()); n == 1 || n == 2 || n == 4 { // all four, the first alone, the third
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return infertest.Echo(batch), nil
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 4 })
		b.wantCounts(2, 2)
		if !b.worker.Ready() || b.source.Receives() != 1 {
			t.Error("pulling was paused")
		}
		b.stop()
	})
}

// After work was done the next pause is short again.
func TestPausesStartAnewAfterWork(t *testing.T) {
	inBubble(t, func(b *bundle) {
		var until time.Time
		b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
			if time.Now().Before(until) {
				return workertest.Fault{Err: workertest.ErrUnavailable}
			}
			return workertest.Fault{}
		}
		b.store.OnLookup = func(context.Context, int) error {
			if time.Now().Before(until) {
				return workertest.ErrUnavailable
			}
			return nil
		}
		b.source.Redeliver = true
		b.start()
		for i, tt := range []struct{ outage, late time.Duration }{{10 * time.Minute, 61 * time.Second}, {22 * time.Second, 10 * time.Second}} {
			until = time.Now().Add(tt.outage)
			b.source.Add(jsonItem("r", fmt.Sprint(i)))
			b.waitFor("ack", func() bool { return b.source.Count(worker.Ack) == i+1 })
			if late := time.Since(until); late > tt.late {
				t.Errorf("outage %d: done %s after its end, want at most %s", i, late, tt.late)
			}
		}
		b.stop()
	})
}

// lastMinuteSource delivers one more message after its intake was stopped.
type lastMinuteSource struct {
	worker.Source
	last    *worker.Delivery
	settled chan worker.Settlement
}

func (s lastMinuteSource) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	stop := context.AfterFunc(ctx, func() { s.settled <- handle(context.WithoutCancel(ctx), s.last) })
	defer stop()
	return s.Source.Receive(ctx, handle)
}

// What arrives when pulling has just been paused is somebody else's at once.
func TestLateDeliveryInAPauseIsGivenBack(t *testing.T) {
	inBubble(t, func(b *bundle) {
		it := jsonItem("r", "late")
		late := lastMinuteSource{b.source, &worker.Delivery{Data: it.Data, Attributes: it.Attributes()}, make(chan worker.Settlement, 9)}
		b.change = func(d *worker.Deps) { d.Source = late }
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			return nil, worker.Failf(worker.ClassTransient, "connection refused")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("pause", func() bool { return b.source.Count(worker.Nack) == 3 })
		time.Sleep(time.Millisecond) // fake time
		select {
		case s := <-late.settled:
			if s != worker.Nack {
				t.Errorf("settled as %s, want nack", s)
			}
		default:
			t.Error("the delivery is still held")
		}
		b.stop()
	})
}
