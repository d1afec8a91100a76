// Package signals turns SIGTERM and SIGINT into a context, with the rules that
// a drain needs.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Stop is what the signals mean to a process.
type Stop struct {
	// Context is done after the first SIGTERM or SIGINT; its cause names it.
	Context context.Context
	// Now is closed after a second SIGINT: the person at the terminal does not
	// want to wait. A second SIGTERM changes nothing.
	Now <-chan struct{}
}

// Received is the cause of a stop by a signal.
type Received struct{ Signal os.Signal }

// Error names the signal.
func (r Received) Error() string { return fmt.Sprintf("received %s", r.Signal) }

// Notify installs the handlers, so it belongs before anything slow. release
// ends their effect: a later signal does what the system does by itself.
func Notify(parent context.Context) (stop Stop, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	now := make(chan struct{})
	arrived := make(chan os.Signal, 8)
	released := make(chan struct{})
	signal.Notify(arrived, syscall.SIGTERM, syscall.SIGINT)
	go watch(arrived, released, cancel, now)
	return Stop{Context: ctx, Now: now}, func() {
		signal.Stop(arrived)
		close(released)
		cancel(nil)
	}
}

func watch(arrived <-chan os.Signal, released <-chan struct{}, cancel context.CancelCauseFunc, now chan<- struct{}) {
	interrupts := 0
	for {
		select {
		case <-released:
			return
		case s := <-arrived:
			cancel(Received{s})
			if s != syscall.SIGINT {
				continue
			}
			if interrupts++; interrupts == 2 {
				close(now)
			}
		}
	}
}
