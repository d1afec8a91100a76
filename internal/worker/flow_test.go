package worker

import "testing"

// What is there already came in time, even when no time is left.
func TestWithinNoTime(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for range 100 {
		if !within(0, done) {
			t.Fatal("within(0) of a closed channel: got false, want true")
		}
	}
	if within(0, make(chan struct{})) {
		t.Error("within(0) of an open channel: got true, want false")
	}
}
