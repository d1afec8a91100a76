package pubsub_test

import (
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

func TestUpdateMasks(t *testing.T) {
	update := &pubsubpb.Subscription{
		Name: sub, Topic: dead, Filter: "attributes:x", EnableMessageOrdering: true,
		AckDeadlineSeconds: 60, RetainAckedMessages: true, EnableExactlyOnceDelivery: true,
		MessageRetentionDuration: durationpb.New(time.Hour),
		Labels:                   map[string]string{"new": "1"},
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(48 * time.Hour)},
		RetryPolicy:              &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)},
		DeadLetterPolicy:         &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic, MaxDeliveryAttempts: 50},
		PushConfig:               &pubsubpb.PushConfig{},
		BigqueryConfig:           &pubsubpb.BigQueryConfig{Table: "p.d.t"},
	}
	for _, tt := range []struct {
		path string
		want codes.Code
		set  func(*pubsubpb.Subscription) // what the update changes
	}{
		{"ack_deadline_seconds", codes.OK, func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 60 }},
		{"retain_acked_messages", codes.OK, func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true }},
		{"enable_exactly_once_delivery", codes.OK, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true }},
		{"message_retention_duration", codes.OK, func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(time.Hour) }},
		{"labels", codes.OK, func(s *pubsubpb.Subscription) { s.Labels = map[string]string{"new": "1"} }},
		{"expiration_policy", codes.OK, func(s *pubsubpb.Subscription) { s.ExpirationPolicy.Ttl = durationpb.New(48 * time.Hour) }},
		{"expiration_policy.ttl", codes.OK, func(s *pubsubpb.Subscription) { s.ExpirationPolicy.Ttl = durationpb.New(48 * time.Hour) }},
		{"retry_policy", codes.OK, func(s *pubsubpb.Subscription) {
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second), MaximumBackoff: durationpb.New(600 * time.Second)}
		}},
		{"retry_policy.minimum_backoff", codes.OK, func(s *pubsubpb.Subscription) { s.RetryPolicy.MinimumBackoff = durationpb.New(time.Second) }},
		{"retry_policy.maximum_backoff", codes.OK, func(s *pubsubpb.Subscription) { s.RetryPolicy.MaximumBackoff = durationpb.New(600 * time.Second) }},
		{"dead_letter_policy", codes.OK, func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy.DeadLetterTopic, s.DeadLetterPolicy.MaxDeliveryAttempts = topic, 50
		}},
		{"dead_letter_policy.max_delivery_attempts", codes.OK, func(s *pubsubpb.Subscription) { s.DeadLetterPolicy.MaxDeliveryAttempts = 50 }},
		{"dead_letter_policy.dead_letter_topic", codes.OK, func(s *pubsubpb.Subscription) { s.DeadLetterPolicy.DeadLetterTopic = topic }},
		{"push_config", codes.OK, func(*pubsubpb.Subscription) {}},
		{"cloud_storage_config", codes.OK, func(*pubsubpb.Subscription) {}}, // to clear what is not there
		{"name", codes.InvalidArgument, nil},
		{"topic", codes.InvalidArgument, nil},
		{"filter", codes.InvalidArgument, nil},
		{"enable_message_ordering", codes.InvalidArgument, nil},
		{"nonsense", codes.InvalidArgument, nil},
		{"retry_policy.nonsense", codes.InvalidArgument, nil},
		{"labels.new", codes.InvalidArgument, nil},
		{"ack_deadline_seconds.x", codes.InvalidArgument, nil},
		{"", codes.InvalidArgument, nil},
		{"bigquery_config", codes.Unimplemented, nil},
	} {
		t.Run(tt.path, func(t *testing.T) {
			b := setup(t)
			b.createTopic(t, dead)
			b.create(t, func(s *pubsubpb.Subscription) {
				s.Labels = map[string]string{"old": "1"}
				s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(2 * time.Second), MaximumBackoff: durationpb.New(3 * time.Second)}
				s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 7}
			})
			admin := b.client.SubscriptionAdminClient
			want, err := admin.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
			if err != nil {
				t.Fatal(err)
			}
			_, err = admin.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
				Subscription: proto.CloneOf(update), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{tt.path}},
			})
			if status.Code(err) != tt.want {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if tt.set != nil {
				tt.set(want)
			}
			got, err := admin.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("after the update (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateWithoutMask(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	_, err := b.sub.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{Subscription: &pubsubpb.Subscription{Name: sub}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}
