package pull_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// A stream that ends is opened again and nobody notices. When none can be opened
// there are no deliveries, and the subscription says so until one comes.
func TestConnectedSaysWhetherDeliveriesCanCome(t *testing.T) {
	b := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- b.sub.Receive(ctx, func(context.Context, *worker.Delivery) worker.Settlement { return worker.Ack })
	}()
	b.publish(ctx, 1)
	waitFor(t, "ack", func() bool { return b.acked() == 1 })
	if !b.sub.Connected() {
		t.Error("not connected although a delivery came")
	}

	away := b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Code: codes.Unavailable, Close: true})
	waitFor(t, "loss of the connection", func() bool { return !b.sub.Connected() })
	b.cloud.Faults().Remove(away)
	b.publish(ctx, 1)
	waitFor(t, "ack", func() bool { return b.acked() == 2 })
	if !b.sub.Connected() {
		t.Error("not connected although deliveries come again")
	}

	b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
	b.publish(ctx, 1)
	waitFor(t, "ack", func() bool { return b.acked() == 3 })
	if !b.sub.Connected() {
		t.Error("one stream that ended counts as the loss of the connection")
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Receive: %v", err)
	}
}

// Which errors of an intake come again at every try decides how long it is
// tried.
func TestErrorsOfReceive(t *testing.T) {
	for code, permanent := range map[codes.Code]bool{
		codes.NotFound: true, codes.InvalidArgument: true, codes.PermissionDenied: false, codes.Unauthenticated: false,
	} {
		b := setup(t)
		b.cloud.Faults().Add(fault.Rule{Method: "StreamingPull", Code: code})
		err := b.sub.Receive(t.Context(), func(context.Context, *worker.Delivery) worker.Settlement { return worker.Nack })
		if err == nil || errors.Is(err, worker.ErrPermanent) != permanent {
			t.Errorf("Receive with %s: got %v, want permanent %t", code, err, permanent)
		}
	}
}

// acked is the number of messages that the server has seen acked.
func (b *bench) acked() int {
	b.t.Helper()
	c, err := b.cloud.Broker().Counts(subPath)
	if err != nil {
		b.t.Fatal(err)
	}
	return int(c.Acked)
}
