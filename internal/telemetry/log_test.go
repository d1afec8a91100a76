package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/telemetry"
)

func TestLoggerFormats(t *testing.T) {
	for _, tc := range []struct {
		format   string
		terminal bool
		json     bool
	}{
		{"json", true, true},
		{"json", false, true},
		{"text", true, false},
		{"text", false, false},
		{"auto", true, false},
		{"auto", false, true},
		{"", false, true},
	} {
		var out bytes.Buffer
		telemetry.NewLogger(&out, config.Log{Level: "info", Format: tc.format}, tc.terminal).Info("hello", "n", 1)
		if got := json.Valid(out.Bytes()); got != tc.json {
			t.Errorf("format %q, terminal %t: JSON is %t; want %t: %s", tc.format, tc.terminal, got, tc.json, &out)
		}
	}
}

func TestLoggerLevels(t *testing.T) {
	for _, tc := range []struct {
		level string
		lines int
	}{{"debug", 4}, {"info", 3}, {"warn", 2}, {"error", 1}, {"", 3}} {
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, config.Log{Level: tc.level}, false)
		log.Debug("m")
		log.Info("m")
		log.Warn("m")
		log.Error("m")
		if got := strings.Count(out.String(), "\n"); got != tc.lines {
			t.Errorf("level %q: %d lines; want %d", tc.level, got, tc.lines)
		}
	}
}

func TestLoggerAddsTrace(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, config.Log{}, false).With("run_id", "r")
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	log.InfoContext(trace.ContextWithSpanContext(t.Context(), sc), "in a span")
	log.InfoContext(t.Context(), "outside")
	lines := strings.Split(out.String(), "\n")
	if want := `"run_id":"r","trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`; !strings.Contains(lines[0], want) {
		t.Errorf("line = %s; want %s in it", lines[0], want)
	}
	if strings.Contains(lines[1], "trace_id") {
		t.Errorf("line = %s; want no trace", lines[1])
	}
}

func TestErrorsOfOpenTelemetryAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	if _, err := telemetry.Setup(t.Context(), config.Telemetry{Metrics: "none", Traces: "none"}, "s", "v",
		slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		otel.Handle(errors.New("collector is away"))
	}
	otel.Handle(errors.New("something else"))
	if got := out.String(); strings.Count(got, "collector is away") != 1 || strings.Count(got, "something else") != 1 {
		t.Errorf("log = %s; want each error once", got)
	}
}
