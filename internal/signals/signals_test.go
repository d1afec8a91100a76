package signals_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/signals"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/signal.loop"))
}

func send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

// soon fails the test when c is not closed within a time that no working
// program needs.
func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

func TestFirstSignalStopsAndIsTheCause(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGTERM: "received terminated", syscall.SIGINT: "received interrupt",
	} {
		stop, release := signals.Notify(t.Context())
		if err := stop.Context.Err(); err != nil {
			t.Fatalf("stopped before any signal: %v", err)
		}
		send(t, sig)
		soon(t, "the stop", stop.Context.Done())
		if got := context.Cause(stop.Context).Error(); got != want {
			t.Errorf("cause: got %q, want %q", got, want)
		}
		release()
	}
}

// Signals of one kind are handled in the order in which they were sent, so
// that the second SIGINT shows that the SIGTERMs before it changed nothing.
func TestOnlyASecondInterruptMeansNow(t *testing.T) {
	stop, release := signals.Notify(t.Context())
	defer release()
	for range 3 {
		send(t, syscall.SIGTERM)
	}
	soon(t, "the stop", stop.Context.Done())
	send(t, syscall.SIGINT)
	select {
	case <-stop.Now:
		t.Fatal("the first ctrl-C after SIGTERM stopped at once")
	case <-time.After(50 * time.Millisecond):
	}
	send(t, syscall.SIGINT)
	soon(t, "the stop at once", stop.Now)
}
