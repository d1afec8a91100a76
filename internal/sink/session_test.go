package sink_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const spannerService = "google.spanner.v1.Spanner"

// Field case 2.10: whoever asks first gives up while the session is being made.
// Those who ask later get it.
func TestCallerThatGivesUpDoesNotBlockTheSession(t *testing.T) {
	server := localcloudtest.Start(t)
	name := localcloudtest.Database(t, server)
	server.Faults().Add(fault.Rule{Service: spannerService, Method: "CreateSession", Delay: 3 * time.Second, Count: 1})
	db := open(t, server, name)
	start := time.Now()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := db.Store().Lookup(ctx, []item.Key{key("a")})
		cancel()
		if worker.ClassOf(err, "") != worker.ClassStore {
			t.Errorf("look-up before there is a session: %v, want an error of class store", err)
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("three look-ups with 100ms each took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	commit(t, db.Store(), ok("a", "1"))
	found, err := db.Store().Lookup(ctx, []item.Key{key("a")})
	if err != nil || len(found) != 1 {
		t.Errorf("look-up once the session is there: %v, %v", found, err)
	}
	if took := time.Since(start); took < 2*time.Second || took > 15*time.Second {
		t.Errorf("normal traffic after %s, want soon after the 3s of the session", took)
	}
}

// A session that could not be made is made at the next call, whatever the error.
func TestSessionThatFailsIsMadeAgain(t *testing.T) {
	server := localcloudtest.Start(t)
	name := localcloudtest.Database(t, server)
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Unauthenticated, codes.PermissionDenied, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			server.Faults().Add(fault.Rule{Service: spannerService, Method: "CreateSession", Code: code, Count: 2})
			db := open(t, server, name)
			var err error
			for range 4 {
				if err = db.Ping(t.Context()); err == nil {
					return
				}
			}
			t.Errorf("ping after the fault was gone: %v", err)
		})
	}
}

// Field case 2.11: a server that stalls costs each caller its own deadline and
// no more, and nothing stays behind.
func TestStalledReadsEndWithTheirDeadline(t *testing.T) {
	server, db := setup(t)
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	rule := server.Faults().Add(fault.Rule{Service: spannerService, BlackHole: true})
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, err := db.Store().Lookup(ctx, []item.Key{key("a")})
			if took := time.Since(start); err == nil || took < 900*time.Millisecond || took > 3*time.Second {
				t.Errorf("look-up: %v after %s, want an error after 1s", err, took)
			}
		})
	}
	calls.Wait()
	server.Faults().Remove(rule)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
	if _, err := db.Store().Lookup(t.Context(), []item.Key{key("a")}); err != nil {
		t.Errorf("look-up after the stall: %v", err)
	}
}
