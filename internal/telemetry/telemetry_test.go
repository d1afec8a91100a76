package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// setup sets up telemetry that is shut down with the test.
func setup(t *testing.T, cfg config.Telemetry) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Setup(t.Context(), cfg, "spotbatch-test", "v1.2.3", quiet)
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = tel.Shutdown(ctx)
	})
	return tel
}

func count(t *testing.T, tel *telemetry.Telemetry) {
	t.Helper()
	counter, err := tel.MeterProvider().Meter("test").Int64Counter("spotbatch.items")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3, metric.WithAttributes(attribute.String("outcome", "ok")))
}

func span(t *testing.T, tel *telemetry.Telemetry, text string) {
	t.Helper()
	_, s := tel.TracerProvider().Tracer("test").Start(t.Context(), "infer", trace.WithAttributes(attribute.String("error", text)))
	s.RecordError(errors.New(text))
	s.SetStatus(codes.Error, text)
	s.End()
}

// collector is an OTLP endpoint over HTTP.
type collector struct {
	url string

	mu      sync.Mutex
	metrics []*collectormetrics.ExportMetricsServiceRequest
	traces  []*collectortrace.ExportTraceServiceRequest
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := new(collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/metrics") {
		req := new(collectormetrics.ExportMetricsServiceRequest)
		err = proto.Unmarshal(body, req)
		c.metrics = append(c.metrics, req)
	} else {
		req := new(collectortrace.ExportTraceServiceRequest)
		err = proto.Unmarshal(body, req)
		c.traces = append(c.traces, req)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (c *collector) counts() (metrics, traces int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.metrics), len(c.traces)
}

// blackHole accepts connections and never answers.
func blackHole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It ends with the test.
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPrometheus(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=worker-0")
	tel := setup(t, config.Telemetry{Metrics: "prometheus", MetricsAddr: "127.0.0.1:0", Traces: "none"})
	count(t, tel)
	text := get(t, "http://"+tel.MetricsAddr+"/metrics")
	for _, want := range []string{
		`spotbatch_items_total{outcome="ok"} 3`,
		`k8s_pod_name="worker-0"`, `service_instance_id="`, `service_name="spotbatch-test"`, `service_version="v1.2.3"`,
		"go_goroutines", "process_start_time_seconds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s:\n%s", want, text)
		}
	}
	if tel.Tracing {
		t.Error("Tracing is true")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	var d net.Dialer
	if conn, err := d.DialContext(t.Context(), "tcp", tel.MetricsAddr); err == nil {
		_ = conn.Close()
		t.Error("metrics are still served after Shutdown")
	}
}

func TestPortTaken(t *testing.T) {
	first := setup(t, config.Telemetry{Metrics: "prometheus", MetricsAddr: "127.0.0.1:0", Traces: "none"})
	_, err := telemetry.Setup(t.Context(), config.Telemetry{Metrics: "prometheus", MetricsAddr: first.MetricsAddr, Traces: "otlp"}, "s", "v", quiet)
	if err == nil {
		t.Fatal("Setup succeeded on a port that is taken")
	}
	for _, want := range []string{"telemetry.metrics_addr", first.MetricsAddr, "address already in use"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %q; want %q in it", err, want)
		}
	}
}

func TestNoneIsUsable(t *testing.T) {
	tel := setup(t, config.Telemetry{Metrics: "none", Traces: "none"})
	count(t, tel)
	span(t, tel, "x")
	if err := errors.Join(tel.Flush(t.Context()), tel.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestKindErrorsNameTheirSource(t *testing.T) {
	cfg := config.Telemetry{Metrics: "none", Traces: "none"}
	for _, tc := range []struct{ name, env, value, want string }{
		{"metrics exporter", "OTEL_METRICS_EXPORTER", "console", `OTEL_METRICS_EXPORTER: "console"`},
		{"traces exporter", "OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER: "zipkin"`},
		{"protocol", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := cfg
			if tc.name == "protocol" {
				cfg.Traces = "otlp"
			}
			t.Setenv(tc.env, tc.value)
			_, err := telemetry.Setup(t.Context(), cfg, "s", "v", quiet)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Setup = %v; want %q in the error", err, tc.want)
			}
		})
	}
}

func TestVariablesChooseExporters(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	if tel := setup(t, config.Telemetry{Metrics: "none", Traces: "none"}); !tel.Tracing {
		t.Error("OTEL_TRACES_EXPORTER=otlp is not heeded")
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if tel := setup(t, config.Telemetry{Metrics: "none", Traces: "otlp"}); tel.Tracing {
		t.Error("OTEL_SDK_DISABLED=true is not heeded")
	}
}

// Field case 6.6: two workers with one configuration differ in their resource.
// Field case 6.8: text that is not UTF-8 must not cost the export.
func TestOTLP(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	for range 2 {
		tel := setup(t, config.Telemetry{Metrics: "otlp", Traces: "otlp"})
		if otel.GetTracerProvider() != tel.TracerProvider() {
			t.Error("the global tracer provider, which the Pub/Sub client uses, is not ours")
		}
		count(t, tel)
		span(t, tel, "bad \xff byte")
		if err := tel.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}
	if metrics, traces := c.counts(); metrics != 2 || traces != 2 {
		t.Fatalf("collector got %d metrics and %d traces; want 2 and 2", metrics, traces)
	}
	ids := map[string]bool{}
	for _, req := range c.metrics {
		ids[attr(req.ResourceMetrics[0].Resource.Attributes, "service.instance.id")] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("instance IDs = %v; want two different ones", ids)
	}
	got := c.traces[0].ResourceSpans[0].ScopeSpans[0].Spans[0]
	for name, text := range map[string]string{
		"attribute": attr(got.Attributes, "error"), "status": got.Status.Message,
		"event": attr(got.Events[0].Attributes, "exception.message"),
	} {
		if want := "bad \uFFFD byte"; text != want {
			t.Errorf("%s = %q; want %q", name, text, want)
		}
	}
}

func attr(attrs []*commonpb.KeyValue, key string) string {
	for _, kv := range attrs {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// Field case 6.1: a trace endpoint that hangs does not take the time of the
// metrics, and Shutdown keeps to its deadline.
func TestHangingTracesLeaveMetricsTheirTime(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", blackHole(t))
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", c.url+"/v1/metrics")
	tel := setup(t, config.Telemetry{Metrics: "otlp", Traces: "otlp"})
	count(t, tel)
	span(t, tel, "x")
	err := shutdownWithin(t, tel, 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "shut down traces") || strings.Contains(err.Error(), "metrics") {
		t.Errorf("Shutdown = %v; want an error of the traces alone", err)
	}
	if metrics, _ := c.counts(); metrics != 1 {
		t.Errorf("collector got %d metrics; want 1", metrics)
	}
}

func TestShutdownKeepsItsDeadline(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", blackHole(t))
			tel := setup(t, config.Telemetry{Metrics: "otlp", Traces: "otlp"})
			count(t, tel)
			span(t, tel, "x")
			err := shutdownWithin(t, tel, 300*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), "shut down traces") || !strings.Contains(err.Error(), "shut down metrics") {
				t.Errorf("Shutdown = %v; want errors of traces and metrics", err)
			}
		})
	}
}

// shutdownWithin checks that Shutdown returns soon after its deadline.
func shutdownWithin(t *testing.T, tel *telemetry.Telemetry, budget time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	start := time.Now()
	err := tel.Shutdown(ctx)
	if d := time.Since(start); d > budget+300*time.Millisecond {
		t.Errorf("Shutdown took %s of %s", d, budget)
	}
	return err
}
