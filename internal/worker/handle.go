package worker

import (
	"context"
	"errors"

	"github.com/spotbatch/spotbatch/internal/item"
)

// handle is the life of one delivery, as the Source sees it.
func (w *Worker) handle(ctx context.Context, d *Delivery) Settlement {
	it, err := item.Decode(d.Data, d.Attributes)
	if errors.Is(err, item.ErrForeign) {
		return w.bury(d, err)
	}
	t := newTask(ctx, it)
	twin, ok := w.admit(t)
	switch {
	case !ok:
		w.metrics.notAcked(nackDrain, 0)
		return Nack
	case twin != nil:
		return w.share(t, twin, d.Lost)
	}

	if err != nil {
		w.fail(t, ClassInvalidInput, err.Error())
	} else {
		select {
		case w.toLookup <- t:
		case <-t.done: // given back by the drain
		}
	}
	w.await(t, t, d.Lost)
	return t.settlement
}

// share waits for the outcome of the delivery that came first: two deliveries
// of one item share one run of the model.
func (w *Worker) share(t, twin *task, lost <-chan struct{}) Settlement {
	if !w.await(t, twin, lost) {
		return Abandon
	}
	if twin.settlement != Ack {
		w.metrics.notAcked(twin.reason, 0)
		return Nack
	}
	w.metrics.item(outcomeShared)
	return Ack
}

// await waits until other is settled, or until t's lease is lost: then t is
// abandoned, if it is still undecided, and await returns false.
func (w *Worker) await(t, other *task, lost <-chan struct{}) bool {
	select {
	case <-other.done:
		return true
	case <-lost:
	}
	if t == other {
		return !w.settle(t, Abandon, nackLeaseLost)
	}
	w.metrics.notAcked(nackLeaseLost, 0)
	return false
}

// bury records a message that names no item, and acks it once that record is
// durable.
func (w *Worker) bury(d *Delivery, reason error) Settlement {
	ctx, cancel := context.WithTimeout(w.work, w.cfg.StoreTimeout)
	defer cancel()
	if err := w.deps.DeadLetters.Bury(ctx, d, reason.Error()); err != nil {
		w.deps.Log.WarnContext(ctx, "dead letter not recorded; message given back", "message_id", d.MessageID, "error", err)
		w.metrics.notAcked(nackTransient, 0)
		return Nack
	}
	w.deps.Log.WarnContext(ctx, "foreign message moved to the dead-letter topic", "message_id", d.MessageID, "reason", reason.Error())
	w.metrics.failure(ClassInvalidInput)
	return Ack
}
