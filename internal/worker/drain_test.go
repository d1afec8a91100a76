package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/worker"
	"github.com/spotbatch/spotbatch/internal/worker/workertest"
)

func TestIdleDrainTakesNoTime(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		if took := b.stop(); took != 0 {
			t.Errorf("drain took %s, want 0s", took)
		}
		if b.err != nil || b.worker.Ready() || !b.runner.Closed() {
			t.Errorf("after the drain: err %v, ready %t, runner closed %t", b.err, b.worker.Ready(), b.runner.Closed())
		}
	})
}

// Of 64 held, the 4 inside the model finish; the 60 others are given back in
// the same instant.
func TestDrainKeepsWhatWillFinishAndGivesBackTheRest(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = sleepy(2 * time.Second)
		b.source.Add(items(68)...)
		b.start()
		b.waitFor("second batch", func() bool { return b.source.Count(worker.Ack) == 4 && b.source.Held() == 64 })
		start := time.Now()
		took := b.stop()
		b.wantCounts(8, 60)
		for _, s := range b.source.Settlements() {
			if after := s.At.Sub(start); s.Settlement == worker.Nack && after != 0 {
				t.Errorf("%s was given back after %s, want at once", s.MessageID, after)
			}
		}
		if took > 2*time.Second {
			t.Errorf("drain took %s, want what was left of a 2 s batch", took)
		}
	})
}

func TestDrainGivesBackABatchThatWillNotFinish(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = sleepy(20 * time.Second)
		b.source.Add(items(8)...)
		b.start()
		// The first batch teaches the average; the second is under way.
		b.waitFor("second batch", func() bool { return len(b.runner.Batches()) == 2 && b.source.Count(worker.Ack) == 4 })
		if took := b.stop(); took != 0 {
			t.Errorf("drain took %s, want 0s: 20 s do not fit in 8 s", took)
		}
		b.wantCounts(4, 4)
	})
}

func TestDrainIsOverAtTheHardStop(t *testing.T) {
	stuck := func(released chan struct{}) func(context.Context, []worker.Input) ([]worker.Output, error) {
		return func(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
			<-released
			return infertest.Echo(batch), nil
		}
	}
	for _, tt := range []struct {
		name  string
		setUp func(b *bundle, released chan struct{})
		most  time.Duration
	}{
		{"runner never returns", func(b *bundle, released chan struct{}) {
			b.runner.RunFunc = stuck(released)
		}, 8*time.Second + 1500*time.Millisecond},
		{"runner returns when told", func(b *bundle, _ chan struct{}) {
			b.runner.RunFunc = func(ctx context.Context, _ []worker.Input) ([]worker.Output, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, 8 * time.Second},
		{"commit hangs", func(b *bundle, _ chan struct{}) {
			b.store.OnCommit = func(ctx context.Context, _ int, _ []worker.Result) workertest.Fault {
				<-ctx.Done()
				return workertest.Fault{}
			}
		}, 8 * time.Second},
		{"store is away", func(b *bundle, _ chan struct{}) {
			b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
				return workertest.Fault{Err: workertest.ErrUnavailable}
			}
		}, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				released := make(chan struct{})
				tt.setUp(b, released)
				b.source.Add(items(4)...)
				b.start()
				b.waitFor("a batch", func() bool { return len(b.runner.Batches()) == 1 })
				start := time.Now()
				took := b.stop()
				close(released)
				b.wantCounts(0, 4)
				if took > tt.most {
					t.Errorf("drain took %s, want at most %s", took, tt.most)
				}
				for _, s := range b.source.Settlements() {
					if after := s.At.Sub(start); after > 8*time.Second {
						t.Errorf("%s was given back after %s, want 8s", s.MessageID, after)
					}
				}
				if b.err != nil {
					t.Errorf("Run: %v", b.err)
				}
			})
		})
	}
}

// Results that are on their way to the store get there.
func TestDrainWaitsForCommits(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.store.OnCommit = func(context.Context, int, []worker.Result) workertest.Fault {
			time.Sleep(3 * time.Second)
			return workertest.Fault{}
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("commit", func() bool { return b.store.Commits() == 1 })
		if took := b.stop(); took > 3*time.Second {
			t.Errorf("drain took %s, want 3s", took)
		}
		b.wantCounts(4, 0)
	})
}

// A failed batch is not tried again while draining.
func TestDrainEndsRetries(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			time.Sleep(time.Second)
			return nil, worker.Failf(worker.ClassBatchError, "no")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("a batch", func() bool { return len(b.runner.Batches()) == 1 })
		if took := b.stop(); took > time.Second {
			t.Errorf("drain took %s, want 1s", took)
		}
		b.wantCounts(0, 4)
		if rows := b.store.Rows(); len(rows) != 0 {
			t.Errorf("the drain left %d rows, want none", len(rows))
		}
	})
}

func TestStopDuringLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		load func(ctx context.Context, released chan struct{}) error
	}{
		{"load heeds the context", func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }},
		{"load cannot be interrupted", func(_ context.Context, released chan struct{}) error { <-released; return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				released := make(chan struct{})
				b.runner.LoadFunc = func(ctx context.Context) (worker.Info, error) {
					return worker.Info{}, tt.load(ctx, released)
				}
				b.source.Add(items(4)...)
				b.start()
				time.Sleep(time.Second) // fake time
				if took := b.stop(); took != 0 {
					t.Errorf("stop during load took %s, want 0s", took)
				}
				close(released)
				if b.err != nil {
					t.Errorf("Run: %v", b.err)
				}
				if b.source.Receives() != 0 {
					t.Error("deliveries were taken before the model was loaded")
				}
			})
		})
	}
}

func TestLoadThatFails(t *testing.T) {
	broken := errors.New("no such file")
	inBubble(t, func(b *bundle) {
		b.runner.LoadFunc = func(context.Context) (worker.Info, error) { return worker.Info{}, broken }
		b.start()
		<-b.ended
		if !errors.Is(b.err, broken) || b.worker.Ready() {
			t.Errorf("Run: got %v, ready %t", b.err, b.worker.Ready())
		}
	})
	inBubble(t, func(b *bundle) {
		b.runner.LoadFunc = func(ctx context.Context) (worker.Info, error) { <-ctx.Done(); return worker.Info{}, ctx.Err() }
		start := time.Now()
		b.start()
		<-b.ended
		if took := time.Since(start); b.err == nil || took != b.cfg.LoadTimeout {
			t.Errorf("Run: got %v after %s, want an error after %s", b.err, took, b.cfg.LoadTimeout)
		}
	})
}

// Between two tries nothing is in the model, so nothing is waited for.
func TestDrainGivesBackWhatWaitsForItsNextTry(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			return nil, worker.Failf(worker.ClassTransient, "503")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("fifth try", func() bool { return len(b.runner.Batches()) == 5 })
		if took := b.stop(); took != 0 {
			t.Errorf("drain took %s, want 0s: the runner was idle", took)
		}
		b.wantCounts(0, 4)
	})
}

// A try that fails while draining is not waited for a second time.
func TestDrainDoesNotBackOff(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(context.Context, []worker.Input) ([]worker.Output, error) {
			if len(b.runner.Batches()) == 5 {
				time.Sleep(100 * time.Millisecond)
			}
			return nil, worker.Failf(worker.ClassTransient, "503")
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("fifth try", func() bool { return len(b.runner.Batches()) == 5 })
		if took := b.stop(); took > 100*time.Millisecond {
			t.Errorf("drain took %s, want what was left of the run, at most 100ms", took)
		}
		b.wantCounts(0, 4)
	})
}

// Of a batch that is being bisected, only the part that the runner has is
// waited for.
func TestDrainGivesBackTheRestOfABisectedBatch(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.runner.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if len(batch) > 1 {
				return nil, worker.Failf(worker.ClassProtocolError, "nonsense")
			}
			return sleepy(3*time.Second)(ctx, batch)
		}
		b.source.Add(items(4)...)
		b.start()
		b.waitFor("first item alone", func() bool { return len(b.runner.Batches()) == 2 })
		time.Sleep(time.Second) // fake time
		start := time.Now()
		if took := b.stop(); took > 2*time.Second {
			t.Errorf("drain took %s, want what was left of one run, 2s", took)
		}
		b.wantCounts(1, 3)
		for _, s := range b.source.Settlements() {
			if after := s.At.Sub(start); s.Settlement == worker.Nack && after != 0 {
				t.Errorf("%s was given back after %s, want at once", s.MessageID, after)
			}
		}
	})
}

// A dead-letter topic that does not answer is not waited for.
func TestDrainGivesBackWhatIsBeingBuried(t *testing.T) {
	inBubble(t, func(b *bundle) {
		burying := make(chan struct{})
		b.source.OnBury = func(ctx context.Context) error {
			close(burying)
			<-ctx.Done()
			return ctx.Err()
		}
		b.source.AddRaw([]byte("hello"), map[string]string{"who": "me"})
		b.start()
		<-burying
		if took := b.stop(); took != 0 {
			t.Errorf("drain took %s, want 0s", took)
		}
		b.wantCounts(0, 1)
	})
}

func TestRunnerThatCallsItselfNonsenseIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		info worker.Info
	}{
		{"long model version", worker.Info{ModelVersion: strings.Repeat("v", 129)}},
		{"model version that is not text", worker.Info{ModelVersion: "v\xff"}},
		{"negative batch", worker.Info{MaxBatch: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				b.runner.Info = tt.info
				b.start()
				time.Sleep(time.Second) // fake time
				b.stop()
				if b.err == nil || b.source.Receives() != 0 {
					t.Errorf("Run: got %v after %d intakes, want an error before the first", b.err, b.source.Receives())
				}
			})
		})
	}
}
