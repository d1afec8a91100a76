package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The client libraries start this worker when they are loaded, and never stop it.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// The Spanner client asks the metadata server for its region, and leaves the connection open.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		// The Pub/Sub client's handler of an ended stream sleeps until its next ping.
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"))
}

const (
	topic        = "projects/" + localcloudtest.Project + "/topics/items"
	deadTopic    = "projects/" + localcloudtest.Project + "/topics/items-dead"
	subscription = "projects/" + localcloudtest.Project + "/subscriptions/workers"
)

// bench is a whole localcloud with its admin API.
type bench struct {
	testing.TB
	*localcloud.Server
	url string
}

func setup(t testing.TB) bench {
	t.Helper()
	server, err := localcloud.Start(context.WithoutCancel(t.Context()), localcloud.Config{
		PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", GCSAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatalf("start localcloud: %v", err)
	}
	t.Cleanup(server.Close)
	return bench{t, server, "http://" + server.Addr(localcloud.Admin)}
}

// call makes a request and returns the answer.
func (b bench) call(method, path, body string) (status int, answer string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	return b.do(req)
}

func (b bench) do(req *http.Request) (status int, answer string) {
	b.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// state asks for the state with a query like "?item_id=a".
func (b bench) state(query string) admin.State {
	b.Helper()
	code, text := b.call(http.MethodGet, "/state"+query, "")
	var state admin.State
	if err := json.Unmarshal([]byte(text), &state); err != nil || code != http.StatusOK {
		b.Fatalf("state = %d %v: %s", code, err, text)
	}
	return state
}

// fault adds a fault.
func (b bench) fault(body string) {
	b.Helper()
	if code, text := b.call(http.MethodPost, "/faults", body); code != http.StatusCreated {
		b.Fatalf("POST /faults %s = %d %s", body, code, text)
	}
}

// pubsub returns a client, and makes a topic and a subscription that forwards to a dead-letter topic after 5 attempts.
func (b bench) pubsub() *gcppubsub.Client {
	b.Helper()
	client, err := gcppubsub.NewClient(b.Context(), localcloudtest.Project, localcloudtest.PubSubOptions(b.Server)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	for _, name := range []string{topic, deadTopic} {
		if _, err := client.TopicAdminClient.CreateTopic(b.Context(), &pubsubpb.Topic{Name: name}); err != nil {
			b.Fatal(err)
		}
	}
	b.subscribe(client, &pubsubpb.Subscription{
		Name: subscription, Topic: topic, AckDeadlineSeconds: 10,
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic, MaxDeliveryAttempts: 5},
	})
	b.subscribe(client, &pubsubpb.Subscription{Name: subscription + "-dead", Topic: deadTopic, AckDeadlineSeconds: 10})
	return client
}

func (b bench) subscribe(client *gcppubsub.Client, s *pubsubpb.Subscription) {
	b.Helper()
	if _, err := client.SubscriptionAdminClient.CreateSubscription(b.Context(), s); err != nil {
		b.Fatal(err)
	}
}

// publish sends one message for each item.
func (b bench) publish(client *gcppubsub.Client, items ...string) {
	b.Helper()
	publisher := client.Publisher(topic)
	defer publisher.Stop()
	for _, item := range items {
		message := &gcppubsub.Message{Data: []byte("{}"), Attributes: map[string]string{"run_id": "r", "item_id": item}}
		if _, err := publisher.Publish(b.Context(), message).Get(b.Context()); err != nil {
			b.Fatalf("publish %s: %v", item, err)
		}
	}
}
