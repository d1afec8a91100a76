package pubsub_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// say publishes messages with the given payloads, separated by spaces.
func (b *bed) say(t *testing.T, payloads string) {
	t.Helper()
	req := &pubsubpb.PublishRequest{Topic: topic}
	for data := range strings.FieldsSeq(payloads) {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: []byte(data), Attributes: map[string]string{"data": data}})
	}
	if _, err := b.client.TopicAdminClient.Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// drain pulls and acks what there is, and returns the payloads in order.
func (b *bed) drain(t *testing.T, sub string) string {
	t.Helper()
	var got []string
	for {
		resp, err := b.client.SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 100, ReturnImmediately: true}) //nolint:staticcheck // nothing may come
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.GetReceivedMessages()) == 0 {
			slices.Sort(got)
			return strings.Join(got, " ")
		}
		for _, m := range resp.GetReceivedMessages() {
			got = append(got, string(m.GetMessage().GetData()))
		}
		err = b.client.SubscriptionAdminClient.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ackIDs(resp.GetReceivedMessages())})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bed) seek(t *testing.T, sub string, to time.Time) {
	t.Helper()
	_, err := b.client.SubscriptionAdminClient.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(to)}})
	if err != nil {
		t.Fatal(err)
	}
}

// What is older than the retention of the subscription is gone, and not a moment
// before.
func TestSubscriptionRetention(t *testing.T) {
	b := setup(t)
	b.create(t, func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(time.Hour) })
	b.say(t, "a")
	b.clock.Advance(time.Minute)
	b.say(t, "b")
	b.clock.Advance(59*time.Minute - 1)
	if c := b.counts(t); c.Ready != 2 || c.Dropped != 0 {
		t.Errorf("before the hour: %+v", c)
	}
	b.clock.Advance(1)
	if c := b.counts(t); c.Ready != 1 || c.Dropped != 1 {
		t.Errorf("after the hour: %+v", c)
	}
	if got := b.drain(t, sub); got != "b" {
		t.Errorf("got %q, want b", got)
	}
}

// A topic that retains its messages lets any of its subscriptions seek back, over
// acks and to the time before the subscription existed.
func TestTopicRetention(t *testing.T) {
	b := setup(t)
	admin := b.client.TopicAdminClient
	_, err := admin.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic, MessageRetentionDuration: durationpb.New(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	start := b.clock.Now()
	b.say(t, "a")
	b.clock.Advance(10 * time.Minute)
	early := b.clock.Now()
	b.say(t, "b c")
	for _, s := range []*pubsubpb.Subscription{
		{Name: sub, Topic: topic, MessageRetentionDuration: durationpb.New(10 * time.Minute)},
		{Name: sub + "-filter", Topic: topic, Filter: `attributes.data != "b"`},
	} {
		created, err := b.client.SubscriptionAdminClient.CreateSubscription(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := created.GetTopicMessageRetentionDuration().AsDuration(); got != time.Hour {
			t.Errorf("topic_message_retention_duration: got %v, want 1h", got)
		}
	}
	b.say(t, "d e")
	steps := []struct {
		name     string
		do       func()
		want     string
		filtered string // what the subscription with the filter has
	}{
		{"first", func() {}, "d e", "d e"},
		{"seek to the start", func() { b.seek(t, sub, start); b.seek(t, sub+"-filter", start) }, "a b c d e", "a c d e"},
		{"seek again", func() { b.seek(t, sub, start); b.seek(t, sub+"-filter", early) }, "a b c d e", "c d e"},
		{"seek to the future", func() {
			b.seek(t, sub, b.clock.Now().Add(time.Second))
			b.say(t, "f")
			b.clock.Advance(time.Second)
			b.say(t, "g")
		}, "g", "f g"},
		{"what is older than the topic's hour is gone", func() {
			b.clock.Advance(50*time.Minute - time.Second)
			b.seek(t, sub, start)
			b.seek(t, sub+"-filter", start)
		}, "b c d e f g", "c d e f g"},
		{"the longer retention counts for what is not acked", func() {
			b.say(t, "h")
			b.clock.Advance(30 * time.Minute) // the subscription alone would keep it for 10
		}, "h", "h"},
		{"without retention there is nothing to go back to", func() {
			_, err := admin.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{
				Topic: &pubsubpb.Topic{Name: topic}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"message_retention_duration"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			b.seek(t, sub, start)
			b.seek(t, sub+"-filter", start)
		}, "", ""},
	}
	for _, step := range steps {
		step.do()
		got := [2]string{b.drain(t, sub), b.drain(t, sub+"-filter")}
		if diff := cmp.Diff([2]string{step.want, step.filtered}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
