// Package telemetry sets up OpenTelemetry and the logger: providers that the
// caller hands on, the Prometheus endpoint, and a shutdown that keeps to its
// time whatever the collector does.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/spotbatch/spotbatch/internal/config"
)

// Values of telemetry.metrics and telemetry.traces.
const (
	kindPrometheus = "prometheus"
	kindOTLP       = "otlp"
	kindNone       = "none"
)

// Telemetry holds the providers. Its fields are set by Setup and read-only.
type Telemetry struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider

	// Tracing says that spans go somewhere, so that the cost of making them
	// is worth it.
	Tracing bool
	// MetricsHandler serves the Prometheus format, MetricsAddr is where it is
	// served already. Both are zero unless metrics are prometheus.
	MetricsHandler http.Handler
	MetricsAddr    string

	flush, shutdown []step
}

// MeterProvider returns the provider of metrics, which is never nil.
func (t *Telemetry) MeterProvider() metric.MeterProvider { return t.meters }

// TracerProvider returns the provider of traces, which is never nil.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.tracers }

// step is a part of flushing or shutting down.
type step struct {
	name string
	do   func(context.Context) error
}

// Setup makes the providers that cfg asks for. The standard OTEL_* variables
// say how: endpoints, protocols, headers, intervals, samplers, resource
// attributes. OTEL_METRICS_EXPORTER and OTEL_TRACES_EXPORTER win over cfg, as
// any variable wins over the file, and OTEL_SDK_DISABLED=true turns all off.
//
// Setup sets OpenTelemetry's global tracer provider, since the Pub/Sub client
// knows no other, its propagator, and its error handler, which would write to
// stderr. Nothing of this package reads the globals back. Unless Setup fails,
// the caller must call Shutdown.
func Setup(ctx context.Context, cfg config.Telemetry, service, version string, log *slog.Logger) (*Telemetry, error) {
	metrics, traces, err := kinds(cfg)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&errorLog{log: log})
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))

	res := describe(ctx, service, version, log)
	t := &Telemetry{meters: metricnoop.NewMeterProvider(), tracers: tracenoop.NewTracerProvider()}
	if err := t.setupTraces(ctx, traces, res); err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	if err := t.setupMetrics(ctx, metrics, cfg.MetricsAddr, res, log); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = t.Shutdown(ctx) // stops at once: there is nothing to send yet
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	otel.SetTracerProvider(t.tracers)
	return t, nil
}

// kinds returns what metrics and traces are to be.
func kinds(cfg config.Telemetry) (metrics, traces string, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return kindNone, kindNone, nil
	}
	choose := func(configured, variable, key string, allowed ...string) string {
		name, value := key, configured
		if v := os.Getenv(variable); v != "" {
			name, value = variable, v
		}
		if slices.Contains(allowed, value) {
			return value
		}
		err = errors.Join(err, fmt.Errorf("%s: %q: must be one of %s", name, value, strings.Join(allowed, ", ")))
		return kindNone
	}
	metrics = choose(cfg.Metrics, "OTEL_METRICS_EXPORTER", "telemetry.metrics", kindPrometheus, kindOTLP, kindNone)
	traces = choose(cfg.Traces, "OTEL_TRACES_EXPORTER", "telemetry.traces", kindOTLP, kindNone)
	return metrics, traces, err
}

// describe makes the resource. Each process has an instance ID of its own, so
// that two of them never write the same time series. What
// OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say wins.
func describe(ctx context.Context, service, version string, log *slog.Logger) *resource.Resource {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName(service),
			semconv.ServiceVersion(version),
			semconv.ServiceInstanceID(uuid.NewString()),
		),
		resource.WithFromEnv(),
	)
	if err != nil { // res holds what could be read
		log.Warn("telemetry resource is incomplete", "error", err)
	}
	return res
}

func (t *Telemetry) setupTraces(ctx context.Context, kind string, res *resource.Resource) error {
	if kind == kindNone {
		return nil
	}
	exporter, err := spanExporter(ctx)
	if err != nil {
		return err
	}
	spans := newCleanExporter(exporter)
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans))
	t.tracers, t.Tracing = p, true
	t.flush = append(t.flush, step{"traces", p.ForceFlush})
	t.shutdown = append(t.shutdown, step{"traces", func(ctx context.Context) error {
		defer spans.abort()
		return p.Shutdown(ctx)
	}})
	return nil
}

func (t *Telemetry) setupMetrics(ctx context.Context, kind, addr string, res *resource.Resource, log *slog.Logger) error {
	var reader sdkmetric.Reader
	switch kind {
	case kindNone:
		return nil
	case kindOTLP:
		exporter, err := metricExporter(ctx)
		if err != nil {
			return err
		}
		reader = sdkmetric.NewPeriodicReader(exporter)
	case kindPrometheus:
		exporter, handler, err := prometheusExporter()
		if err != nil {
			return err
		}
		server, err := serve(ctx, addr, handler, log)
		if err != nil {
			return err
		}
		reader = exporter
		t.MetricsHandler, t.MetricsAddr = handler, server.addr
		t.shutdown = append(t.shutdown, step{"metrics server", server.shutdown})
	}
	p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader))
	t.meters = p
	t.flush = append(t.flush, step{"metrics", p.ForceFlush})
	t.shutdown = append(t.shutdown, step{"metrics", p.Shutdown})
	return nil
}

// Flush sends what has been recorded so far. It returns when all is sent or
// ctx is done, whichever is first, with the errors of all parts.
func (t *Telemetry) Flush(ctx context.Context) error { return all(ctx, "flush", t.flush) }

// Shutdown sends what is left and stops everything; what is recorded later is
// dropped. Metrics, traces and the metrics server stop side by side, so that
// one that hangs does not take the time of the others. Shutdown returns when
// ctx is done at the latest, even if an exporter does not heed it; then that
// one goes on in the background until the process exits.
func (t *Telemetry) Shutdown(ctx context.Context) error { return all(ctx, "shut down", t.shutdown) }

func all(ctx context.Context, doing string, steps []step) error {
	var mu sync.Mutex
	late := make(map[string]bool, len(steps))
	for _, s := range steps {
		late[s.name] = true
	}
	var errs []error
	var wg sync.WaitGroup
	for _, s := range steps {
		wg.Go(func() {
			err := s.do(ctx)
			mu.Lock()
			defer mu.Unlock()
			delete(late, s.name)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", doing, s.name, err))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	for name := range late {
		errs = append(errs, fmt.Errorf("%s %s: %w", doing, name, context.Cause(ctx)))
	}
	return errors.Join(errs...)
}
