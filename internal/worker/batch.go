package worker

import (
	"context"
	"slices"
	"time"
)

// pending is a batch that is being put together.
type pending struct {
	tasks []*task
	ids   map[string]bool
	bytes int64
	// next did not fit; it is the first of the batch after this one.
	next *task
}

// alone reports whether the batch is one item that has to be alone.
func (p *pending) alone() bool { return len(p.tasks) == 1 && p.tasks[0].quarantined }

// offer adds t, or keeps it for the next batch: a runner's answers name items
// by their ID alone, so that no two of one batch may share it.
func (p *pending) offer(t *task, maxBytes int64) {
	if len(p.tasks) > 0 && (t.quarantined || p.ids[t.item.ItemID] || p.bytes+t.input.Bytes > maxBytes) {
		p.next = t
		return
	}
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	p.tasks = append(p.tasks, t)
	p.ids[t.item.ItemID] = true
	p.bytes += t.input.Bytes
}

// batch puts items together and hands a batch over when the model takes it, or
// when record does, if it has suspects. A batch is ripe when it is full or when
// BatchWait is over since its first item; while nobody takes it a ripe batch
// goes on growing.
func (w *Worker) batch(ctx context.Context, in <-chan *task, out, record chan<- []*task) error {
	var p pending
	ripe := time.NewTimer(0)
	<-ripe.C
	defer ripe.Stop()
	waited := false
	for {
		full := p.next != nil || len(p.tasks) >= w.batchLimit() || p.alone()
		from, to := in, out
		if slices.ContainsFunc(p.tasks, w.toRecord) {
			to = record
		}
		if full {
			from = nil
		}
		if len(p.tasks) == 0 || (!full && !waited) {
			to = nil
		}
		select {
		case t := <-from:
			if len(p.tasks) == 0 {
				waited = false
				ripe.Reset(w.cfg.BatchWait)
			}
			p.offer(t, w.cfg.BatchBytes)
		case <-ripe.C:
			waited = true
		case to <- p.tasks:
			next := p.next
			p, waited = pending{}, false
			if next != nil {
				p.offer(next, w.cfg.BatchBytes)
				ripe.Reset(w.cfg.BatchWait)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
