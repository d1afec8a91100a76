package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/publish/progress"
	"github.com/spotbatch/spotbatch/internal/sink"
)

var names = config.PubSub{Topic: "items", Subscription: "items-workers", DeadLetterTopic: "items-dead"}

func connect(t *testing.T, server *localcloud.Server) *publish.Client {
	t.Helper()
	client, err := publish.Connect(t.Context(), localcloudtest.Project, false, localcloudtest.PubSubOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// admin returns a client of the service itself.
func admin(t *testing.T, server *localcloud.Server) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(t.Context(), localcloudtest.Project, localcloudtest.PubSubOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func steps(t *testing.T, client *publish.Client) (map[string]publish.Step, error) {
	t.Helper()
	found := map[string]publish.Step{}
	err := client.Setup(t.Context(), names, 30*time.Second, func(s publish.Step) { found[s.What] = s })
	return found, err
}

func TestSetup(t *testing.T) {
	server := localcloudtest.Start(t)
	client := connect(t, server)
	if err := client.Check(t.Context(), "items"); err == nil || !strings.Contains(err.Error(), "run `publisher setup`") {
		t.Errorf("check before set-up: %v", err)
	}
	for _, created := range []bool{true, false} {
		got, err := steps(t, client)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]publish.Step{}
		for _, what := range []string{"topic items", "topic items-dead", "subscription items-dead-sub", "subscription items-workers"} {
			want[what] = publish.Step{What: what, Created: created}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	}
	if err := client.Check(t.Context(), "items"); err != nil {
		t.Errorf("check after set-up: %v", err)
	}
	sub, err := admin(t, server).SubscriptionAdminClient.GetSubscription(t.Context(),
		&pubsubpb.GetSubscriptionRequest{Subscription: "projects/demo/subscriptions/items-workers"})
	if err != nil {
		t.Fatal(err)
	}
	policy := sub.GetDeadLetterPolicy()
	if sub.GetAckDeadlineSeconds() != 30 || policy.GetMaxDeliveryAttempts() != 100 || policy.GetDeadLetterTopic() != "projects/demo/topics/items-dead" ||
		sub.GetMessageRetentionDuration().AsDuration() != 7*24*time.Hour || sub.GetExpirationPolicy().GetTtl() != nil ||
		sub.GetRetryPolicy().GetMinimumBackoff().AsDuration() != time.Second || sub.GetRetryPolicy().GetMaximumBackoff().AsDuration() != 10*time.Minute {
		t.Errorf("subscription %v", sub)
	}
}

func TestSetupLeavesAloneWhatIsThere(t *testing.T) {
	server := localcloudtest.Start(t)
	a := admin(t, server)
	if _, err := a.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/demo/topics/items"}); err != nil {
		t.Fatal(err)
	}
	_, err := a.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: "projects/demo/subscriptions/items-workers", Topic: "projects/demo/topics/items", AckDeadlineSeconds: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := steps(t, connect(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if s := got["subscription items-workers"]; s.Created || !strings.Contains(s.Note, "dead-letter topic") {
		t.Errorf("step %+v, want a note on the dead-letter topic", s)
	}
}

func TestSetupRefusesASubscriptionOfAnotherTopic(t *testing.T) {
	server := localcloudtest.Start(t)
	a := admin(t, server)
	if _, err := a.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/demo/topics/other"}); err != nil {
		t.Fatal(err)
	}
	_, err := a.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: "projects/demo/subscriptions/items-workers", Topic: "projects/demo/topics/other",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps(t, connect(t, server)); err == nil || !strings.Contains(err.Error(), "it belongs to projects/demo/topics/other") {
		t.Errorf("error %v", err)
	}
}

func TestSetupNamesTheMissingPermission(t *testing.T) {
	for method, want := range map[string]string{
		"GetTopic":           "pubsub.topics.get on projects/demo",
		"CreateTopic":        "pubsub.topics.create on projects/demo",
		"CreateSubscription": "pubsub.subscriptions.create on projects/demo",
	} {
		server := localcloudtest.Start(t)
		server.Faults().Add(fault.Rule{Method: method, Code: codes.PermissionDenied, Message: "denied"})
		if _, err := steps(t, connect(t, server)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", method, err, want)
		}
	}
}

// publisher publishes to a server of its own with a run table of its own.
type publisher struct {
	server *localcloud.Server
	client *publish.Client
	db     *sink.Database
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	server := localcloudtest.Start(t)
	client := connect(t, server)
	if _, err := steps(t, client); err != nil {
		t.Fatal(err)
	}
	db, err := sink.Open(t.Context(), localcloudtest.Database(t, server), slog.New(slog.DiscardHandler), localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	reader := sdkmetric.NewManualReader()
	return &publisher{server: server, client: client, db: db, reader: reader, meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
}

// run publishes rows of the given number as the run r.
func (p *publisher) run(ctx context.Context, t *testing.T, file string) error {
	t.Helper()
	data, err := dataset.Open(ctx, []string{file}, dataset.Options{})
	if err != nil {
		return err
	}
	cfg := config.Publish{MaxOutstanding: 100, MaxOutstandingBytes: 10 << 20}
	log := slog.New(slog.DiscardHandler)
	pub, err := publish.New(ctx, publish.Config{Window: cfg.MaxOutstanding}, p.client.Topic("items", cfg), p.db.Runs(), progress.NewLog(log), p.meters, log)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pub.Run(ctx, "r", data, "", publish.NoCheckpoint{})
	return err
}

func write(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":%d}\n", i)
	}
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// receive returns how often each item of n different ones was delivered.
func receive(t *testing.T, server *localcloud.Server, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := map[string]int{}
	messages := make(chan *pubsub.Message)
	sub := admin(t, server).Subscriber("items-workers")
	done := make(chan error, 1)
	go func() {
		done <- sub.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
			select {
			case messages <- m:
				m.Ack()
			case <-ctx.Done():
				m.Nack() // Receive waits for each message to be settled
			}
		})
	}()
	for len(seen) < n {
		select {
		case m := <-messages:
			id := m.Attributes["item_id"]
			if m.Attributes["run_id"] != "r" || string(m.Data) != `{"id":`+id+`}` || m.Attributes["content_type"] != "application/json" {
				t.Errorf("message %q with %v", m.Data, m.Attributes)
			}
			seen[id]++
		case <-ctx.Done():
			t.Fatalf("%d of %d items received", len(seen), n)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return seen
}

func TestPublishToPubSub(t *testing.T) {
	p := newPublisher(t)
	const n = 2500
	if err := p.run(t.Context(), t, write(t, n)); err != nil {
		t.Fatal(err)
	}
	run, err := p.db.Runs().Get(t.Context(), "r")
	if err != nil || run.State != publish.StatePublished || run.Published != n {
		t.Errorf("run %+v, error %v", run, err)
	}
	for id, times := range receive(t, p.server, n) {
		if times != 1 {
			t.Errorf("item %s published %d times", id, times)
		}
	}
	var metrics metricdata.ResourceMetrics
	if err := p.reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
			got[m.Name] += point.Value
			if point.Attributes.Len() > 0 {
				t.Errorf("%s has attributes %v", m.Name, point.Attributes.Encoded(attribute.DefaultEncoder()))
			}
		}
	}
	if got["spotbatch.published"] != n || got["spotbatch.publish.bytes"] < n*8 {
		t.Errorf("metrics %v", got)
	}
}

func TestPublishThatPubSubRefusesIsGoneOnWith(t *testing.T) {
	p := newPublisher(t)
	file := write(t, 1000)
	p.server.Faults().Add(fault.Rule{Method: "Publish", Code: codes.PermissionDenied, Message: "denied", Count: 1, Probability: 0.5, Seed: 7})
	err := p.run(t.Context(), t, file)
	if err == nil || !strings.Contains(err.Error(), "give the same command again") || !strings.Contains(err.Error(), "denied") {
		t.Fatalf("error %v", err)
	}
	run, err := p.db.Runs().Get(t.Context(), "r")
	if err != nil || run.State != publish.StatePublishing || run.Published >= 1000 {
		t.Errorf("run %+v, error %v", run, err)
	}
	if err := p.run(t.Context(), t, file); err != nil {
		t.Fatal(err)
	}
	receive(t, p.server, 1000)
}

func TestPublishWhoseReplyIsLostPublishesAgain(t *testing.T) {
	p := newPublisher(t)
	p.server.Faults().Add(fault.Rule{Method: "Publish", When: fault.After, Code: codes.Unavailable, Count: 2})
	if err := p.run(t.Context(), t, write(t, 300)); err != nil {
		t.Fatal(err)
	}
	run, err := p.db.Runs().Get(t.Context(), "r")
	if err != nil || run.Published != 300 {
		t.Errorf("run %+v, error %v; what was sent twice counts once", run, err)
	}
	receive(t, p.server, 300)
}

func TestPublishPutsTheTraceOnTheMessage(t *testing.T) {
	p := newPublisher(t)
	// The client knows no other provider than the global one.
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	for _, tracing := range []bool{false, true} {
		client, err := publish.Connect(t.Context(), localcloudtest.Project, tracing, localcloudtest.PubSubOptions(p.server)...)
		if err != nil {
			t.Fatal(err)
		}
		it := item.Item{Key: item.Key{RunID: "r", ItemID: "a"}, ContentType: item.ContentTypeJSON, Data: []byte(`{"id":"a"}`)}
		topic := client.Topic("items", config.Publish{MaxOutstanding: 1, MaxOutstandingBytes: 10 << 20})
		if err := topic.Publish(t.Context(), it).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		found, err := admin(t, p.server).SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{
			Subscription: "projects/demo/subscriptions/items-workers", MaxMessages: 2,
		})
		if err != nil || len(found.GetReceivedMessages()) != 1 {
			t.Fatalf("%d messages, error %v; want 1", len(found.GetReceivedMessages()), err)
		}
		attrs := found.GetReceivedMessages()[0].GetMessage().GetAttributes()
		if got := attrs["googclient_traceparent"] != ""; got != tracing {
			t.Errorf("tracing %t: attributes %v", tracing, attrs)
		}
		if decoded, err := item.Decode([]byte(`{"id":"a"}`), attrs); err != nil || decoded.Key != it.Key {
			t.Errorf("decoded %v, error %v", decoded.Key, err)
		}
	}
}

func TestPublishToAServiceThatHangsCanBeStopped(t *testing.T) {
	p := newPublisher(t)
	p.server.Faults().Add(fault.Rule{Method: "Publish", BlackHole: true})
	cause := errors.New("received interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	if err := p.run(ctx, t, write(t, 500)); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("stopped after %s", took)
	}
}
