package broker

import "time"

// Clock is the broker's source of time. Implementations are safe for
// concurrent use. Now must carry a monotonic reading or never step back.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of Clock.AfterFunc.
type Timer interface {
	// Stop prevents a call that has not begun. It does not wait for one that has.
	Stop() bool
	// Reset makes the call happen d from now, also if it has happened already.
	Reset(d time.Duration) bool
}

// SystemClock is the machine's clock; inside a testing/synctest bubble it is the
// bubble's.
type SystemClock struct{}

var _ Clock = SystemClock{}

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
