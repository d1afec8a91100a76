package pubsub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func message(attrs map[string]string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: attrs}
}

func attributes(n int) map[string]string {
	attrs := make(map[string]string)
	for i := range n {
		attrs[fmt.Sprint("k", i)] = "v"
	}
	return attrs
}

// sized returns a request of exactly n bytes on the wire.
func sized(n int) *pubsubpb.PublishRequest {
	req := &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, n)}}}
	req.Messages[0].Data = make([]byte, n-(proto.Size(req)-n))
	return req
}

func TestPublishLimits(t *testing.T) {
	many := func(n int) *pubsubpb.PublishRequest {
		req := &pubsubpb.PublishRequest{Topic: topic}
		for range n {
			req.Messages = append(req.Messages, message(nil))
		}
		return req
	}
	one := func(m *pubsubpb.PubsubMessage) *pubsubpb.PublishRequest {
		return &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{m}}
	}
	b := setup(t)
	b.create(t, nil)
	for _, tt := range []struct {
		name string
		req  *pubsubpb.PublishRequest
		want codes.Code
	}{
		{"10 MB", sized(10_000_000), codes.OK},
		{"10 MB and a byte", sized(10_000_001), codes.InvalidArgument},
		{"1000 messages", many(1000), codes.OK},
		{"1001 messages", many(1001), codes.InvalidArgument},
		{"no messages", many(0), codes.InvalidArgument},
		{"100 attributes", one(message(attributes(100))), codes.OK},
		{"101 attributes", one(message(attributes(101))), codes.InvalidArgument},
		{"key of 256 bytes", one(message(map[string]string{strings.Repeat("k", 256): ""})), codes.OK},
		{"key of 257 bytes", one(message(map[string]string{strings.Repeat("k", 257): ""})), codes.InvalidArgument},
		{"empty key", one(message(map[string]string{"": "v"})), codes.InvalidArgument},
		{"reserved key", one(message(map[string]string{"goog-x": "v"})), codes.InvalidArgument},
		{"value of 1024 bytes", one(message(map[string]string{"k": strings.Repeat("v", 1024)})), codes.OK},
		{"value of 1025 bytes", one(message(map[string]string{"k": strings.Repeat("v", 1025)})), codes.InvalidArgument},
		{"attributes only", one(&pubsubpb.PubsubMessage{Attributes: map[string]string{"k": "v"}}), codes.OK},
		{"neither data nor attributes", one(&pubsubpb.PubsubMessage{OrderingKey: "k"}), codes.InvalidArgument},
		{"two ordering keys", &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{
			{Data: []byte("x"), OrderingKey: "a"}, {Data: []byte("x"), OrderingKey: "b"},
		}}, codes.InvalidArgument},
		{"unknown topic", &pubsubpb.PublishRequest{Topic: topic + "-not", Messages: many(1).GetMessages()}, codes.NotFound},
		{"no topic", &pubsubpb.PublishRequest{Messages: many(1).GetMessages()}, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := b.counts(t).Published
			_, err := b.pub.Publish(t.Context(), tt.req)
			if got := status.Code(err); got != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err != nil && b.counts(t).Published != before {
				t.Error("a refused request was published in part")
			}
		})
	}
}

func TestTopicNames(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct {
		name string
		want codes.Code
	}{
		{"projects/demo/topics/abc", codes.OK},
		{"projects/demo/topics/A-z_0.9~+%41", codes.OK},
		{"projects/demo/topics/" + strings.Repeat("a", 255), codes.OK},
		{"projects/demo/topics/" + strings.Repeat("a", 256), codes.InvalidArgument},
		{"projects/demo/topics/ab", codes.InvalidArgument},
		{"projects/demo/topics/1abc", codes.InvalidArgument},
		{"projects/demo/topics/googly", codes.InvalidArgument},
		{"projects/demo/topics/with space", codes.InvalidArgument},
		{"projects/demo/topics/a/b", codes.InvalidArgument},
		{"projects/demo/subscriptions/abc", codes.InvalidArgument},
		{"projects//topics/abc", codes.InvalidArgument},
		{"abc", codes.InvalidArgument},
		{"", codes.InvalidArgument},
		{"projects/demo/topics/abc", codes.AlreadyExists},
	} {
		if _, err := b.pub.CreateTopic(t.Context(), &pubsubpb.Topic{Name: tt.name}); status.Code(err) != tt.want {
			t.Errorf("%q: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

// What cannot be done is refused with its name, never ignored.
func TestRefusedSubscriptions(t *testing.T) {
	b := setup(t)
	b.createTopic(t, topic)
	for _, tt := range []struct {
		name string
		set  func(*pubsubpb.Subscription)
		want codes.Code
		says string
	}{
		{"bad filter", func(s *pubsubpb.Subscription) { s.Filter = "attributes" }, codes.InvalidArgument, "filter"},
		{"push", func(s *pubsubpb.Subscription) { s.PushConfig = &pubsubpb.PushConfig{PushEndpoint: "https://x"} }, codes.Unimplemented, "push_config"},
		{"bigquery", func(s *pubsubpb.Subscription) { s.BigqueryConfig = &pubsubpb.BigQueryConfig{} }, codes.Unimplemented, "bigquery_config"},
		{"transforms", func(s *pubsubpb.Subscription) { s.MessageTransforms = []*pubsubpb.MessageTransform{{}} }, codes.Unimplemented, "message_transforms"},
		{"deadline 9", func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 9 }, codes.InvalidArgument, "10 to 600"},
		{"deadline 601", func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 601 }, codes.InvalidArgument, "10 to 600"},
		{"short retention", func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(time.Minute) }, codes.InvalidArgument, "10m0s"},
		{"4 attempts", func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic, MaxDeliveryAttempts: 4}
		}, codes.InvalidArgument, "5 to 100"},
		{"missing dead-letter topic", withDeadLetter, codes.NotFound, dead},
		{"missing topic", func(s *pubsubpb.Subscription) { s.Topic += "-not" }, codes.NotFound, "items-not"},
		{"no topic", func(s *pubsubpb.Subscription) { s.Topic = "" }, codes.InvalidArgument, "topics"},
		{"bad name", func(s *pubsubpb.Subscription) { s.Name = "workers" }, codes.InvalidArgument, "subscriptions"},
		{"back-off upside down", func(s *pubsubpb.Subscription) {
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(20 * time.Second), MaximumBackoff: durationpb.New(10 * time.Second)}
		}, codes.InvalidArgument, "maximum_backoff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &pubsubpb.Subscription{Name: sub, Topic: topic}
			tt.set(s)
			_, err := b.sub.CreateSubscription(t.Context(), s)
			if status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.says)
			}
		})
	}
}

func TestRefusedTopics(t *testing.T) {
	b := setup(t)
	for name, topic := range map[string]*pubsubpb.Topic{
		"kms_key_name":    {Name: topic, KmsKeyName: "k"},
		"schema_settings": {Name: topic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: "s"}},
	} {
		if _, err := b.pub.CreateTopic(t.Context(), topic); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want Unimplemented", name, err)
		}
	}
	short := &pubsubpb.Topic{Name: topic, MessageRetentionDuration: durationpb.New(time.Minute)}
	if _, err := b.pub.CreateTopic(t.Context(), short); status.Code(err) != codes.InvalidArgument {
		t.Errorf("short retention: got %v, want InvalidArgument", err)
	}
}

func TestAckRequestLimits(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	for _, tt := range []struct {
		name    string
		sub     string
		ids     []string
		seconds int32
		want    codes.Code
	}{
		{"an old ack ID", sub, []string{"lc-1"}, 10, codes.OK},
		{"600 s", sub, []string{"lc-1"}, 600, codes.OK},
		{"601 s", sub, []string{"lc-1"}, 601, codes.InvalidArgument},
		{"-1 s", sub, []string{"lc-1"}, -1, codes.InvalidArgument},
		{"no ack IDs", sub, nil, 10, codes.InvalidArgument},
		{"malformed", sub, []string{"lc-!"}, 10, codes.InvalidArgument},
		{"unknown subscription", sub + "-not", []string{"lc-1"}, 10, codes.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.sub.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: tt.sub, AckIds: tt.ids, AckDeadlineSeconds: tt.seconds})
			if got := status.Code(err); got != tt.want {
				t.Errorf("ModifyAckDeadline: got %v, want %v", err, tt.want)
			}
			if strings.HasSuffix(tt.name, " s") {
				return
			}
			_, err = b.sub.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: tt.sub, AckIds: tt.ids})
			if got := status.Code(err); got != tt.want {
				t.Errorf("Acknowledge: got %v, want %v", err, tt.want)
			}
		})
	}
}
