package pull

import (
	"errors"
	"log/slog"
	"testing"
)

// Three streams that fail in a row are an outage; fewer are the service's habit.
func TestOnlyFailuresInARowAreAnOutage(t *testing.T) {
	ended := errors.New("unavailable")
	c := connection{log: slog.New(slog.DiscardHandler)}
	for i, step := range []struct{ fails, down bool }{
		{true, false},
		{true, false},
		{false, false},
		{true, false},
		{true, false},
		{true, true},
		{true, true},
		{false, false},
		{true, false},
	} {
		if step.fails {
			c.failed(t.Context(), ended)
		} else {
			c.works(t.Context())
		}
		if got := c.down.Load(); got != step.down {
			t.Errorf("step %d: down %t, want %t", i, got, step.down)
		}
	}
}
