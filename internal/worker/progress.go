package worker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// progress knows for how long deliveries have been held without anything
// coming of them, and since when there was no work. The zero value is ready; it
// is safe for concurrent use.
type progress struct {
	mu sync.Mutex
	// held is the number of deliveries that are being handled.
	held int
	// since is when the present stretch without progress began; of no meaning
	// while nothing is held.
	since time.Time
	// stalled are earlier stretches since the last progress. They ended with
	// the loss of every lease, which is none.
	stalled time.Duration
	// ended is when a delivery was last settled.
	ended time.Time
}

// made is called when something came back that more is done with: a look-up, a
// payload, a run of the model. A failure counts too: what can be tried again is
// not stuck, and an outage must not restart every worker. The end of a delivery
// is progress by itself.
func (p *progress) made() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled, p.since = 0, time.Now()
}

// begin is called for each delivery that comes.
func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held++; p.held == 1 {
		p.since = time.Now()
	}
}

// end is called for each delivery whose settlement is decided.
func (p *progress) end(s Settlement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.held--
	p.ended = now
	switch {
	case s != Abandon:
		p.stalled, p.since = 0, now
	case p.held == 0:
		p.stalled += now.Sub(p.since)
	}
}

// stall returns for how long something has been held without progress, and how
// many deliveries are held.
func (p *progress) stall() (time.Duration, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == 0 {
		return 0, 0
	}
	return p.stalled + time.Since(p.since), p.held
}

// lastWork returns when there was work: now while something is held, the zero
// time when there never was any.
func (p *progress) lastWork() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held > 0 {
		return time.Now()
	}
	return p.ended
}

// deliver is handle under the eyes of progress.
func (w *Worker) deliver(ctx context.Context, d *Delivery) Settlement {
	w.intakeBroken.Store(false)
	w.progress.begin()
	s := w.handle(ctx, d)
	w.progress.end(s)
	return s
}

// stallMargin is for what stands between the stages' own limits: pauses, and a
// machine that is short of CPU.
const stallMargin = 30 * time.Second

// stallLimit is longer than anything may hold up all that is held. Each part
// ends by itself within its own limit and then counts as progress; their sum is
// for a worker in which they wait for each other.
func (w *Worker) stallLimit() time.Duration {
	return w.cfg.BatchWait + w.cfg.InferTimeout + lateReturn + w.cfg.StoreTimeout + stallMargin
}

// Alive returns an error when deliveries are held and nothing has come of any
// for longer than that can take. It returns nil during the load and the drain,
// which have limits of their own, and while there is no work. It is safe for
// concurrent use.
func (w *Worker) Alive() error {
	w.mu.Lock()
	draining := w.draining
	w.mu.Unlock()
	stalled, held := w.progress.stall()
	if limit := w.stallLimit(); draining || stalled <= limit {
		return nil
	}
	return fmt.Errorf("%d deliveries are held and nothing has come of any for %s", held, stalled.Round(time.Second))
}
