package telemetry

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/spotbatch/spotbatch/internal/config"
)

// NewLogger makes the logger that cfg asks for. Format auto is text on a
// terminal, else JSON. A record that is logged with the context of a span
// gets its trace_id and span_id.
func NewLogger(w io.Writer, cfg config.Log, isTerminal bool) *slog.Logger {
	var level slog.Level // info when cfg was not validated
	_ = level.UnmarshalText([]byte(cfg.Level))
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, opts)
	if cfg.Format == "text" || cfg.Format != "json" && isTerminal {
		h = slog.NewTextHandler(w, opts)
	}
	return slog.New(spanHandler{h})
}

// spanHandler adds the IDs of the context's span to records.
type spanHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h spanHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h spanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spanHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h spanHandler) WithGroup(name string) slog.Handler {
	return spanHandler{h.Handler.WithGroup(name)}
}

// errorLog logs what goes wrong inside OpenTelemetry. A collector that is away
// gives the same error at every export, so each text is logged once an hour.
type errorLog struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]time.Time // when each text was last logged
}

const (
	errorQuiet = time.Hour
	maxSeen    = 100 // texts; beyond it the memory of them starts anew
)

// Handle implements otel.ErrorHandler.
func (e *errorLog) Handle(err error) {
	if e.fresh(err.Error(), time.Now()) {
		e.log.Warn("telemetry is not delivered", "error", err)
	}
}

func (e *errorLog) fresh(text string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.seen[text]; ok && now.Sub(last) < errorQuiet {
		return false
	}
	if e.seen == nil || len(e.seen) >= maxSeen {
		e.seen = make(map[string]time.Time)
	}
	e.seen[text] = now
	return true
}
