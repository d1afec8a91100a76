package telemetry

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// cleanExporter replaces what is not valid UTF-8 in the texts of spans. OTLP
// refuses such text, and with it the whole export; error texts may quote any
// bytes of a payload.
//
// It can also be aborted: the SDK's span processor goes on exporting what it
// holds, with a time-out of its own, after the context of Shutdown has ended.
type cleanExporter struct {
	sdktrace.SpanExporter
	life  context.Context
	abort context.CancelFunc // ends exports under way and to come
}

func newCleanExporter(e sdktrace.SpanExporter) *cleanExporter {
	life, abort := context.WithCancel(context.Background())
	return &cleanExporter{SpanExporter: e, life: life, abort: abort}
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *cleanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)() //nolint:contextcheck // abort ends an export whose ctx goes on.
	cleaned := spans
	for i, s := range spans {
		if isClean(s) {
			continue
		}
		if &cleaned[0] == &spans[0] {
			cleaned = slices.Clone(spans)
		}
		cleaned[i] = cleanSpan{s}
	}
	return e.SpanExporter.ExportSpans(ctx, cleaned)
}

func isClean(s sdktrace.ReadOnlySpan) bool {
	return utf8.ValidString(s.Name()) && utf8.ValidString(s.Status().Description) && areClean(s.Attributes()) &&
		!slices.ContainsFunc(s.Events(), func(e sdktrace.Event) bool { return !utf8.ValidString(e.Name) || !areClean(e.Attributes) }) &&
		!slices.ContainsFunc(s.Links(), func(l sdktrace.Link) bool { return !areClean(l.Attributes) })
}

func areClean(attrs []attribute.KeyValue) bool {
	return !slices.ContainsFunc(attrs, func(kv attribute.KeyValue) bool {
		switch kv.Value.Type() {
		case attribute.STRING:
			return !utf8.ValidString(kv.Value.AsString())
		case attribute.STRINGSLICE:
			return slices.ContainsFunc(kv.Value.AsStringSlice(), func(s string) bool { return !utf8.ValidString(s) })
		default:
			return false
		}
	})
}

// cleanSpan is a span whose texts are valid UTF-8.
type cleanSpan struct{ sdktrace.ReadOnlySpan }

func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func cleanAttributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	attrs = slices.Clone(attrs)
	for i, kv := range attrs {
		switch kv.Value.Type() {
		case attribute.STRING:
			attrs[i].Value = attribute.StringValue(clean(kv.Value.AsString()))
		case attribute.STRINGSLICE:
			list := slices.Clone(kv.Value.AsStringSlice())
			for j := range list {
				list[j] = clean(list[j])
			}
			attrs[i].Value = attribute.StringSliceValue(list)
		default:
		}
	}
	return attrs
}

func (s cleanSpan) Name() string { return clean(s.ReadOnlySpan.Name()) }

func (s cleanSpan) Status() sdktrace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = clean(status.Description)
	return status
}

func (s cleanSpan) Attributes() []attribute.KeyValue {
	return cleanAttributes(s.ReadOnlySpan.Attributes())
}

func (s cleanSpan) Events() []sdktrace.Event {
	events := slices.Clone(s.ReadOnlySpan.Events())
	for i := range events {
		events[i].Name, events[i].Attributes = clean(events[i].Name), cleanAttributes(events[i].Attributes)
	}
	return events
}

func (s cleanSpan) Links() []sdktrace.Link {
	links := slices.Clone(s.ReadOnlySpan.Links())
	for i := range links {
		links[i].Attributes = cleanAttributes(links[i].Attributes)
	}
	return links
}
