package pull

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// downAfter is how many streams in a row have to fail before Pub/Sub counts as
// away. The service ends streams now and then; the next one is there at once.
const downAfter = 3

// connection knows whether deliveries can come. A stream that hangs is not told
// from one for which there is nothing: only its end shows.
type connection struct {
	log  *slog.Logger
	down atomic.Bool
	// failures are streams that failed in a row; only the pulling goroutine
	// writes it.
	failures atomic.Int32
}

// failed counts a stream that ended too soon.
func (c *connection) failed(ctx context.Context, err error) {
	if c.failures.Add(1) >= downAfter && !c.down.Swap(true) {
		c.log.WarnContext(ctx, "no deliveries: Pub/Sub cannot be reached; trying until it can", "error", err)
	}
}

// works is called by a stream that has brought something, or lived for long.
func (c *connection) works(ctx context.Context) {
	c.failures.Store(0)
	if c.down.Swap(false) {
		c.log.InfoContext(ctx, "Pub/Sub can be reached again")
	}
}

// Connected implements worker.Connection.
func (s *Subscription) Connected() bool { return !s.line.down.Load() }
