package pull

import (
	"context"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/spotbatch/spotbatch/internal/crash"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// receiver is one call of Receive.
type receiver struct {
	sub    *Subscription
	handle func(context.Context, *worker.Delivery) worker.Settlement
	leases *leases
	out    *outbox

	// places and bytes bound what is handled at once, also when the service
	// sends more than it was asked for.
	places *semaphore.Weighted
	bytes  *semaphore.Weighted
	// room bounds what is held in all: twice the places, since the service
	// knows nothing of what earlier streams have brought.
	room     *semaphore.Weighted
	handlers sync.WaitGroup
}

// Receive implements worker.Source.
//
// At the stop the stream is closed and read to its end first, and only then
// are settlements sent: a message that is nacked, or the next one in the room
// that an ack makes, would else be delivered to this very stream, and stay
// leased to a process that is ending.
func (s *Subscription) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	// Settlements are sent after the stop, too.
	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	pulled := make(chan struct{})
	r := &receiver{
		sub:    s,
		handle: handle,
		leases: newLeases(s.cfg.Lease, s.cfg.MaxLease, s.modify),
		places: semaphore.NewWeighted(int64(s.cfg.MaxOutstanding)),
		bytes:  semaphore.NewWeighted(int64(s.cfg.MaxOutstandingBytes)),
		room:   semaphore.NewWeighted(2 * int64(s.cfg.MaxOutstanding)),
	}
	r.out = newOutbox(s.log, func() {
		if ctx.Err() != nil {
			<-pulled
		}
	}, s.settle)

	var helpers sync.WaitGroup
	keeping, endKeeping := context.WithCancel(calls)
	defer endKeeping()
	helpers.Go(func() { r.leases.run(keeping) })
	helpers.Go(func() { r.out.run(calls) })

	err := s.pullAll(ctx, func(messages []*pubsubpb.ReceivedMessage) { r.take(ctx, messages) })
	close(pulled)
	r.handlers.Wait()
	endKeeping()
	r.out.close()
	helpers.Wait()
	return err
}

// take starts a handler for each message, as soon as there is a place for it.
// What comes after the stop goes back without having been handled.
//
// It does not wait for the places: a delivery that nobody reads is leased all
// the same, and would be somebody else's when it is read at last.
func (r *receiver) take(ctx context.Context, messages []*pubsubpb.ReceivedMessage) {
	// All of them were granted now.
	granted := make([]*lease, len(messages))
	for i, m := range messages {
		granted[i] = r.leases.add(m.GetAckId())
	}
	handling := context.WithoutCancel(ctx)
	for i, m := range messages {
		if r.room.Acquire(ctx, 1) != nil {
			r.settle(granted[i], worker.Nack, trace.SpanContext{})
			continue
		}
		r.handlers.Go(func() {
			defer r.room.Release(1)
			size := min(int64(len(m.GetMessage().GetData())), int64(r.sub.cfg.MaxOutstandingBytes))
			if !r.acquire(ctx, size) {
				r.settle(granted[i], worker.Nack, trace.SpanContext{})
				return
			}
			defer func() {
				r.bytes.Release(size)
				r.places.Release(1)
			}()
			r.deliver(handling, m, granted[i])
		})
	}
}

// acquire waits for a place; false means that ctx was done.
func (r *receiver) acquire(ctx context.Context, size int64) bool {
	if r.places.Acquire(ctx, 1) != nil {
		return false
	}
	if r.bytes.Acquire(ctx, size) != nil {
		r.places.Release(1)
		return false
	}
	return true
}

// deliver is the life of one delivery.
func (r *receiver) deliver(ctx context.Context, m *pubsubpb.ReceivedMessage, l *lease) {
	message := m.GetMessage()
	ctx, span := r.sub.span(ctx, message)
	defer span.End()
	what := r.handle(ctx, &worker.Delivery{
		MessageID:  message.GetMessageId(),
		Data:       message.GetData(),
		Attributes: message.GetAttributes(),
		Attempt:    int(m.GetDeliveryAttempt()),
		Lost:       l.lost,
	})
	if span.IsRecording() {
		span.SetAttributes(attribute.String("spotbatch.settlement", what.String()))
	}
	r.settle(l, what, span.SpanContext())
}

// settle sends what was decided, if the delivery is still ours.
func (r *receiver) settle(l *lease, what worker.Settlement, of trace.SpanContext) {
	if !r.leases.drop(l) || what == worker.Abandon {
		return
	}
	r.out.put(settlement{ackID: l.ackID, ack: what == worker.Ack, until: l.ends, of: of})
}

// modify is a call that changes deadlines; 0 nacks.
func (s *Subscription) modify(ctx context.Context, ackIDs []string, deadline time.Duration) error {
	return s.client.SubscriptionAdminClient.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: s.path, AckIds: ackIDs, AckDeadlineSeconds: int32(deadline / time.Second),
	}, ownRetries)
}

// settle is a call that acks or nacks.
func (s *Subscription) settle(ctx context.Context, batch []settlement) (err error) {
	ids := make([]string, len(batch))
	var links []trace.Link
	for i, b := range batch {
		ids[i] = b.ackID
		if b.of.IsSampled() {
			links = append(links, trace.Link{SpanContext: b.of})
		}
	}
	name := worker.Nack
	if batch[0].ack {
		name = worker.Ack
	}
	ctx, span := s.tracer.Start(ctx, name.String(), trace.WithLinks(links...))
	start := time.Now()
	defer func() {
		s.duration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(attribute.String("stage", "ack")))
		if err != nil {
			span.RecordError(err)
		}
		span.End()
	}()
	if name == worker.Nack {
		crash.At(crash.BeforeNack)
		err = s.modify(ctx, ids, 0)
		crash.At(crash.AfterNack)
		return err
	}
	crash.At(crash.BeforeAck)
	err = s.client.SubscriptionAdminClient.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.path, AckIds: ids}, ownRetries)
	crash.At(crash.AfterAck)
	return err
}

// traceAttributes is how the client library names the attributes in which a
// message carries its trace.
const traceAttributes = "googclient_"

// carrier reads a trace context from the attributes of a message.
type carrier map[string]string

func (c carrier) Get(key string) string { return c[traceAttributes+key] }
func (c carrier) Set(key, value string) { c[traceAttributes+key] = value }
func (c carrier) Keys() []string {
	var keys []string
	for k := range c {
		if name, found := strings.CutPrefix(k, traceAttributes); found {
			keys = append(keys, name)
		}
	}
	return keys
}

// span starts the span of a delivery, in the trace of its publisher.
func (s *Subscription) span(ctx context.Context, m *pubsubpb.PubsubMessage) (context.Context, trace.Span) {
	attrs := m.GetAttributes()
	ctx = propagation.TraceContext{}.Extract(ctx, carrier(attrs))
	ctx, span := s.tracer.Start(ctx, "receive", trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() { // else nobody sees them, and they cost more than the rest
		span.SetAttributes(
			attribute.String("messaging.system", "gcp_pubsub"),
			attribute.String("messaging.message.id", m.GetMessageId()),
			attribute.String("spotbatch.run_id", attrs[item.AttrRunID]),
			attribute.String("spotbatch.item_id", attrs[item.AttrItemID]),
		)
	}
	return ctx, span
}
