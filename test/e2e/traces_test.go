package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector keeps the spans that processes export to it.
type collector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

// ServeHTTP takes OTLP over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not traces", http.StatusBadRequest)
		return
	}
	var request coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// traces returns the trace IDs of the spans of a name, and those that they are
// linked to.
func (c *collector) traces(name string) (own, linked map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, linked = make(map[string]bool), make(map[string]bool)
	for _, s := range c.spans {
		if s.GetName() != name {
			continue
		}
		own[string(s.GetTraceId())] = true
		for _, l := range s.GetLinks() {
			linked[string(l.GetTraceId())] = true
		}
	}
	return own, linked
}

// An item's trace goes from its publisher through its delivery; what is done
// for many items at once has links to the trace of each.
func TestTraceGoesFromPublishToAck(t *testing.T) {
	t.Parallel()
	var spans collector
	server := httptest.NewServer(&spans)
	defer server.Close()
	c := newCluster(t, append(baseEnv(),
		"SPOTBATCH_TELEMETRY_TRACES=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL,
	)...)
	const n = 10
	publisher(t, c, "publish", "--run", "r", numbers(t, n))
	w := startWorker(t, c)
	waitStatus(t, c, complete)
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 {
		t.Errorf("exit %d\n%s", exit.Code, w.Log())
	}

	received, _ := spans.traces("receive")
	published, _ := spans.traces("items create")
	if len(published) < n {
		t.Errorf("messages were published in %d traces, want one for each of %d", len(published), n)
	}
	if len(received) != n {
		t.Errorf("deliveries in %d traces, want %d", len(received), n)
	}
	for id := range received {
		if !published[id] {
			t.Error("a delivery is in no trace of the publisher")
		}
	}
	for _, name := range []string{"lookup", "batch", "commit", "ack"} {
		_, linked := spans.traces(name)
		for id := range received {
			if !linked[id] {
				t.Errorf("an item's trace has no link from a span %q", name)
				break
			}
		}
	}
	batches, _ := spans.traces("batch")
	infers, _ := spans.traces("infer")
	for id := range infers {
		if !batches[id] {
			t.Error("a span infer is not in the trace of a batch")
		}
	}
	if len(infers) == 0 {
		t.Error("no span infer")
	}
}
