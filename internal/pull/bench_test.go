package pull

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// BenchmarkDeliver is what a delivery costs beside the client library and the
// worker: its lease, its span without tracing, and its place in the outbox.
func BenchmarkDeliver(b *testing.B) {
	sent := 0
	r := &receiver{
		sub:    &Subscription{tracer: tracenoop.NewTracerProvider().Tracer("")},
		handle: func(context.Context, *worker.Delivery) worker.Settlement { return worker.Ack },
		leases: newLeases(30*time.Second, time.Hour, nil),
		out: newOutbox(slog.New(slog.DiscardHandler), func() {}, func(_ context.Context, batch []settlement) error {
			sent += len(batch)
			return nil
		}),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.out.run(b.Context())
	}()
	messages := make([]*pubsubpb.ReceivedMessage, 256)
	for i := range messages {
		messages[i] = &pubsubpb.ReceivedMessage{AckId: fmt.Sprint(i), Message: &pubsubpb.PubsubMessage{
			MessageId: fmt.Sprint(i), Data: []byte(`{"x":1}`),
			Attributes: item.Item{Key: item.Key{RunID: "r", ItemID: fmt.Sprint(i)}, ContentType: item.ContentTypeJSON}.Attributes(),
		}}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m := messages[i%len(messages)]
		r.deliver(b.Context(), m, r.leases.add(m.GetAckId()))
	}
	r.out.close()
	<-ended
	if sent != b.N {
		b.Errorf("%d settlements sent, want %d", sent, b.N)
	}
}
