package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// Readiness goes with the intake: away when it breaks, back with the first
// delivery or once it has lived for ten seconds.
func TestReadinessFollowsTheIntake(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		b.source.Break(errors.New("EOF"))
		synctest.Wait()
		if b.worker.Ready() {
			t.Error("ready although the intake broke")
		}
		b.waitFor("second intake", func() bool { return b.source.Receives() == 2 })
		again := time.Now()
		b.waitFor("readiness", b.worker.Ready)
		if took := time.Since(again); took < 9990*time.Millisecond || took > 10*time.Second {
			t.Errorf("ready %s after the intake was there again, want 10s", took)
		}

		b.source.Break(nil)
		b.waitFor("third intake", func() bool { return b.source.Receives() == 3 })
		b.source.Add(jsonItem("r", "a"))
		synctest.Wait()
		if !b.worker.Ready() {
			t.Error("not ready although a delivery came")
		}
		b.finish(1)
	})
}

// connection is a worker.Connection that a test switches.
type connection struct{ down atomic.Bool }

func (c *connection) Connected() bool { return !c.down.Load() }

func TestReadinessFollowsTheConnection(t *testing.T) {
	inBubble(t, func(b *bundle) {
		var c connection
		b.change = func(d *worker.Deps) { d.Connection = &c }
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		for _, down := range []bool{true, false} {
			c.down.Store(down)
			if b.worker.Ready() == down {
				t.Errorf("ready %t while the connection is down: %t", b.worker.Ready(), down)
			}
		}
		b.stop()
	})
}

// The time without work counts from readiness, and anew from each end of work.
func TestIdleWorkerEndsByItself(t *testing.T) {
	const limit = 90 * time.Second
	var c connection
	for _, tt := range []struct {
		name string
		// work is done from readiness on; the worker ends limit after it returns.
		work func(b *bundle)
	}{
		{"no work at all", func(*bundle) {}},
		{"after the last item", func(b *bundle) {
			time.Sleep(limit - time.Second) // fake time
			b.runner.RunFunc = sleepy(50 * time.Second)
			b.source.Add(items(12)...)
			b.waitFor("settlements", func() bool { return len(b.source.Settlements()) == 12 })
		}},
		{"after a foreign message", func(b *bundle) {
			time.Sleep(limit - time.Second) // fake time
			b.source.AddRaw([]byte("hello"), map[string]string{"who": "me"})
			b.waitFor("settlement", func() bool { return len(b.source.Settlements()) == 1 })
		}},
		// Nobody knows of the work that there is behind a broken line.
		{"after an outage", func(*bundle) {
			c.down.Store(true)
			time.Sleep(10 * limit) // fake time
			c.down.Store(false)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bundle) {
				var log logLines
				b.change = func(d *worker.Deps) { d.Connection = &c }
				b.logTo(&log)
				b.cfg.ExitWhenIdle = limit
				b.start()
				b.waitFor("readiness", b.worker.Ready)
				tt.work(b)
				from := time.Now()
				<-b.ended
				// Whoever waits looks once a millisecond, and the worker at an
				// outage once a second.
				if took := time.Since(from); took > limit || took < limit-time.Second {
					t.Errorf("ended %s after the last work, want %s", took, limit)
				}
				if b.err != nil {
					t.Errorf("Run: %v", b.err)
				}
				b.checkAllSettled()
				lines := log.with(t, "draining")
				if len(lines) != 1 || !strings.Contains(lines[0]["cause"].(string), "no work for 1m30s (pull.exit_when_idle)") {
					t.Errorf("cause of the drain: %v", lines)
				}
			})
		})
	}
}

// Silence on a line that is dead says nothing about work.
func TestIdleWorkerLooksWhetherTheCloudIsThere(t *testing.T) {
	inBubble(t, func(b *bundle) {
		var away atomic.Bool
		b.check("Pub/Sub", func(context.Context) error {
			if away.Load() {
				return errAway
			}
			return nil
		})
		b.cfg.ExitWhenIdle = time.Minute
		b.start()
		b.waitFor("readiness", b.worker.Ready)
		away.Store(true)
		time.Sleep(time.Hour + 30*time.Second) // fake time
		if !b.worker.Ready() {
			t.Error("the worker ended although nobody answered")
		}
		away.Store(false)
		back := time.Now()
		<-b.ended
		if took := time.Since(back); took > time.Minute || b.err != nil {
			t.Errorf("ended %s after the cloud was back with %v, want within 1m0s and nil", took, b.err)
		}
	})
}

// An item that takes longer than the limit is work all the time.
func TestHeldItemIsWork(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.ExitWhenIdle = 10 * time.Second
		b.runner.RunFunc = sleepy(50 * time.Second)
		b.source.Add(jsonItem("r", "a"))
		start := time.Now()
		b.start()
		<-b.ended
		b.wantCounts(1, 0)
		if took := time.Since(start); took < 60*time.Second || took > 61*time.Second {
			t.Errorf("ended after %s, want 10s after the item", took)
		}
	})
}

func TestWorkerStaysByDefault(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.start()
		time.Sleep(24 * time.Hour) // fake time
		if !b.worker.Ready() {
			t.Error("not ready after a day without work")
		}
		b.stop()
	})
}

// Work that comes while the checks are made once more is not left behind.
func TestWorkThatComesDuringTheLastCheckIsDone(t *testing.T) {
	inBubble(t, func(b *bundle) {
		b.cfg.ExitWhenIdle = time.Minute
		b.check("Pub/Sub", func(context.Context) error {
			if b.worker.Ready() && len(b.source.Settlements()) == 0 {
				b.source.Add(items(1)...)
				time.Sleep(time.Second) // fake time
			}
			return nil
		})
		b.runner.RunFunc = sleepy(50 * time.Second)
		b.start()
		<-b.ended
		b.wantCounts(1, 0)
	})
}
