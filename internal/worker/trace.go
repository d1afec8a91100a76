package worker

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// span starts a span under the one in ctx.
func (w *Worker) span(ctx context.Context, name string) (context.Context, trace.Span) {
	return w.tracer.Start(ctx, name)
}

// spanOver starts a span over several items, linked to the trace of each. It
// is a child of the span in ctx, if there is one: work on a batch belongs to
// no single item.
func (w *Worker) spanOver(ctx context.Context, name string, tasks []*task) (context.Context, trace.Span) {
	var links []trace.Link
	for _, t := range tasks {
		if of := trace.SpanContextFromContext(t.ctx); of.IsSampled() {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return w.tracer.Start(ctx, name, trace.WithLinks(links...))
}
