package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// grpcProtocol reports whether OTLP goes over gRPC rather than HTTP, which is
// the default of the specification. variable is the signal's own, and wins
// over the common one. The exporters read every other variable themselves.
func grpcProtocol(variable string) (bool, error) {
	for _, name := range []string{variable, "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch value := os.Getenv(name); value {
		case "":
		case "grpc":
			return true, nil
		case "http/protobuf":
			return false, nil
		default:
			return false, fmt.Errorf("%s: %q: must be one of grpc, http/protobuf", name, value)
		}
	}
	return false, nil
}

func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	overGRPC, err := grpcProtocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	switch {
	case err != nil:
		return nil, err
	case overGRPC:
		return otlptracegrpc.New(ctx)
	default:
		return otlptracehttp.New(ctx)
	}
}

func metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	overGRPC, err := grpcProtocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
	switch {
	case err != nil:
		return nil, err
	case overGRPC:
		return otlpmetricgrpc.New(ctx)
	default:
		return otlpmetrichttp.New(ctx)
	}
}

// prometheusExporter makes a reader and the handler that shows it, with the
// process's own metrics beside ours. The registry is not the global one: what
// libraries register there is not ours to promise.
func prometheusExporter() (sdkmetric.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("make prometheus exporter: %w", err)
	}
	return exporter, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
