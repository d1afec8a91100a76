package worker

import (
	"context"
	"errors"

	"github.com/spotbatch/spotbatch/internal/crash"
	"github.com/spotbatch/spotbatch/internal/item"
)

// handle is the life of one delivery, as the Source sees it.
func (w *Worker) handle(ctx context.Context, d *Delivery) Settlement {
	crash.At(crash.AfterReceive)
	it, err := item.Decode(d.Data, d.Attributes)
	if errors.Is(err, item.ErrForeign) {
		return w.bury(d, err)
	}
	own := newTask(ctx, it, d.Attempt)
	t, refused := w.admit(own)
	switch {
	case t == nil:
		w.metrics.notAcked(refused)
		return Nack
	case t != own:
		// Another delivery of the item came first: they share its outcome.
	case err != nil:
		w.fail(t, ClassInvalidInput, err.Error())
	default:
		select {
		case w.toLookup <- t:
		case <-t.done: // given back by the drain
		}
	}
	return w.await(t, t != own, d.Lost)
}

// await waits until t is settled or the lease of this delivery is lost.
func (w *Worker) await(t *task, shared bool, lost <-chan struct{}) Settlement {
	select {
	case <-t.done:
	case <-lost:
		w.leave(t)
		w.metrics.notAcked(nackLeaseLost)
		return Abandon
	}
	if t.settlement != Ack {
		// Also when t was abandoned: this delivery came later, and is ours.
		w.metrics.notAcked(t.reason)
		return Nack
	}
	if shared {
		w.metrics.item(outcomeShared)
	}
	return Ack
}

// bury records a message that names no item, and acks it once that record is
// durable. The drain does not wait for it.
func (w *Worker) bury(d *Delivery, reason error) Settlement {
	ctx, cancel := context.WithTimeout(w.intake, w.cfg.StoreTimeout)
	defer cancel()
	if err := w.deps.DeadLetters.Bury(ctx, d, reason.Error()); err != nil {
		w.deps.Log.WarnContext(ctx, "dead letter not recorded; message given back", "message_id", d.MessageID, "error", err)
		w.metrics.notAcked(nackTransient)
		return Nack
	}
	w.deps.Log.WarnContext(ctx, "foreign message moved to the dead-letter topic", "message_id", d.MessageID, "reason", reason.Error())
	w.metrics.failure(ClassInvalidInput)
	return Ack
}
