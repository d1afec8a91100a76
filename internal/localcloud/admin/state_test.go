package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	gcp "cloud.google.com/go/spanner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

// pull takes one message.
func (b bench) pull(client *gcppubsub.Client) *pubsubpb.ReceivedMessage {
	b.Helper()
	resp, err := client.SubscriptionAdminClient.Pull(b.Context(), &pubsubpb.PullRequest{Subscription: subscription, MaxMessages: 1})
	if err != nil || len(resp.GetReceivedMessages()) != 1 {
		b.Fatalf("pull = %v, %v", resp, err)
	}
	return resp.GetReceivedMessages()[0]
}

func (b bench) modify(client *gcppubsub.Client, ackID string, seconds int32) {
	b.Helper()
	err := client.SubscriptionAdminClient.ModifyAckDeadline(b.Context(), &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: subscription, AckIds: []string{ackID}, AckDeadlineSeconds: seconds,
	})
	if err != nil {
		b.Fatal(err)
	}
}

func TestHistoryOfAnItem(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	before := time.Now().Add(-time.Second)
	const hostile = `a/b?c=d&"../<img src=x onerror=alert(1)>`
	b.publish(client, hostile)
	m := b.pull(client)
	for range 3 {
		b.modify(client, m.GetAckId(), 60)
	}
	b.modify(client, m.GetAckId(), 0)
	m = b.pull(client)
	err := client.SubscriptionAdminClient.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: subscription, AckIds: []string{m.GetAckId()}})
	if err != nil {
		t.Fatal(err)
	}

	got := b.state("?item_id=" + url.QueryEscape(hostile)).Item
	want := &admin.Item{ItemID: hostile, Kept: 1, Limit: admin.HistoryLimit, Messages: []admin.Message{{
		RunID: "r", PayloadBytes: 2, Subscriptions: []admin.MessageProgress{{
			Subscription: subscription, Now: "acked", Events: []admin.MessageEvent{
				{Event: "published"},
				{Event: "delivered", Attempt: 1},
				{Event: "extended", Attempt: 1, Times: 3},
				{Event: "nacked", Attempt: 1},
				{Event: "delivered", Attempt: 2},
				{Event: "acked", Attempt: 2},
			},
		}},
	}}}
	ignore := []cmp.Option{
		cmpopts.IgnoreFields(admin.Message{}, "MessageID", "PublishedAt"), cmpopts.IgnoreFields(admin.MessageEvent{}, "At", "Last", "Consumer"),
	}
	if diff := cmp.Diff(want, got, ignore...); diff != "" {
		t.Fatalf("item (-want +got):\n%s", diff)
	}
	last := before
	for _, event := range got.Messages[0].Subscriptions[0].Events {
		if event.At.Before(last) || event.At.After(time.Now().Add(time.Second)) {
			t.Errorf("%s at %v is out of order, or of another time", event.Event, event.At)
		}
		last = event.At
	}
	for query, want := range map[string]int{
		"&run_id=r": 1, "&run_id=other": 0, "&subscription=" + subscription: 1, "&subscription=" + subscription + "-dead": 0,
	} {
		if got := len(b.state("?item_id=" + url.QueryEscape(hostile) + query).Item.Messages); got != want {
			t.Errorf("%d messages with %s, want %d", got, query, want)
		}
	}
	if got := b.state("?item_id=unknown").Item.Messages; got == nil || len(got) != 0 {
		t.Errorf("messages of an unknown item = %#v, want none", got)
	}
}

func TestHistoryFollowsAnItemToTheDeadLetters(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	b.publish(client, "poison")
	for range 5 {
		b.modify(client, b.pull(client).GetAckId(), 0)
	}
	state := b.state("?item_id=poison")
	if n := len(state.Item.Messages); n != 2 {
		t.Fatalf("%d messages, want the original and the dead letter", n)
	}
	for i, want := range []string{"dead-lettered", "waiting"} {
		if got := state.Item.Messages[i].Subscriptions[0].Now; got != want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
	}
	dead, original := state.Subscriptions[1], state.Subscriptions[0]
	if original.Name != subscription || original.DeadLettered != 1 || original.Ready != 0 || original.DeadLetterTopic != deadTopic || dead.Ready != 1 {
		t.Errorf("subscriptions = %+v", state.Subscriptions)
	}
}

func TestStateCountsMessagesAndRows(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	b.publish(client, "a", "b", "c")
	b.pull(client)
	name := localcloudtest.Database(t, b.Server)
	spanner, err := gcp.NewClientWithConfig(t.Context(), name, gcp.ClientConfig{DisableNativeMetrics: true}, localcloudtest.SpannerOptions(b.Server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer spanner.Close()
	var rows []*gcp.Mutation
	for i := range 1000 {
		run, status := "first", "OK"
		if i%10 == 0 {
			run = "second"
		}
		if i%100 == 0 {
			status = "FAILED"
		}
		rows = append(rows, gcp.InsertOrUpdate("Results", []string{"RunId", "Shard", "ItemId", "Status", "ModelVersion", "Worker", "CommittedAt"},
			[]any{run, i % 64, fmt.Sprint(i), status, "v", "w", gcp.CommitTimestamp}))
	}
	if _, err := spanner.Apply(t.Context(), rows); err != nil {
		t.Fatal(err)
	}

	state := b.state("?subscription=" + subscription)
	want := []admin.Subscription{{
		Name: subscription, Topic: topic, DeadLetterTopic: deadTopic, Published: 3, Ready: 2, Leased: 1, Consumers: state.Subscriptions[0].Consumers,
	}}
	if diff := cmp.Diff(want, state.Subscriptions); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}
	wantRows := []admin.RunRows{
		{Database: name, RunID: "first", Status: "OK", Rows: 900},
		{Database: name, RunID: "second", Status: "FAILED", Rows: 10},
		{Database: name, RunID: "second", Status: "OK", Rows: 90},
	}
	// A count that was just made may be given again.
	deadline := time.Now().Add(10 * time.Second)
	for !cmp.Equal(wantRows, state.Rows) && time.Now().Before(deadline) {
		state = b.state("")
	}
	if diff := cmp.Diff(wantRows, state.Rows); diff != "" || state.RowsOmitted || state.RowsCountedAt == nil {
		t.Errorf("rows (-want +got), omitted %v, counted at %v:\n%s", state.RowsOmitted, state.RowsCountedAt, diff)
	}
	wantTopics := []admin.Topic{
		{Name: topic, Subscriptions: []string{subscription}},
		{Name: deadTopic, Subscriptions: []string{subscription + "-dead"}},
	}
	if diff := cmp.Diff(wantTopics, state.Topics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	b := setup(t)
	tests := map[string]struct {
		query string
		code  int
		want  string
	}{
		"unknown parameter":    {"?itemid=a", http.StatusBadRequest, `unknown parameter \"itemid\"`},
		"given twice":          {"?item_id=a&item_id=b", http.StatusBadRequest, "more than once"},
		"run without item":     {"?run_id=a", http.StatusBadRequest, "run_id narrows down item_id"},
		"no UTF-8":             {"?item_id=%ff", http.StatusBadRequest, "item_id must be UTF-8"},
		"too long":             {"?item_id=" + strings.Repeat("x", 1025), http.StatusBadRequest, "1024 bytes"},
		"unknown subscription": {"?subscription=projects/p/subscriptions/none", http.StatusNotFound, "there is no subscription"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, text := b.call(http.MethodGet, "/state"+test.query, "")
			if code != test.code || !strings.Contains(text, test.want) || strings.Count(text, "\n") > 3 {
				t.Errorf("GET /state%s = %d %s, want %d with %q", test.query, code, text, test.code, test.want)
			}
		})
	}
}

// Each service can be left out, and the rest is shown.
func TestStateWithoutServices(t *testing.T) {
	server, err := localcloud.Start(context.WithoutCancel(t.Context()), localcloud.Config{AdminAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	b := bench{t, server, "http://" + server.Addr(localcloud.Admin)}
	if state := b.state(""); len(state.Topics)+len(state.Rows)+len(state.Faults) > 0 || state.Topics == nil || state.RowsCountedAt != nil {
		t.Errorf("state = %+v", state)
	}
	if code, text := b.call(http.MethodGet, "/state?item_id=a", ""); code != http.StatusNotFound {
		t.Errorf("item without Pub/Sub = %d %s", code, text)
	}
}
