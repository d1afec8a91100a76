package pubsub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	gcp "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestSubscriptionDefaultsAndUpdate(t *testing.T) {
	b := setup(t)
	b.createTopic(t, dead)
	b.create(t, func(s *pubsubpb.Subscription) {
		s.RetryPolicy = &pubsubpb.RetryPolicy{}
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead}
	})
	get := func() *pubsubpb.Subscription {
		t.Helper()
		s, err := b.client.SubscriptionAdminClient.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := &pubsubpb.Subscription{
		Name: sub, Topic: topic, AckDeadlineSeconds: 10,
		MessageRetentionDuration: durationpb.New(7 * 24 * time.Hour),
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(31 * 24 * time.Hour)},
		RetryPolicy:              &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(10 * time.Second), MaximumBackoff: durationpb.New(600 * time.Second)},
		DeadLetterPolicy:         &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 5},
		State:                    pubsubpb.Subscription_ACTIVE,
	}
	if diff := cmp.Diff(want, get(), protocmp.Transform()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}

	_, err := b.client.SubscriptionAdminClient.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: sub, AckDeadlineSeconds: 30, Labels: map[string]string{"a": "b"}},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"ack_deadline_seconds", "labels", "retry_policy"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want.AckDeadlineSeconds, want.Labels, want.RetryPolicy = 30, map[string]string{"a": "b"}, nil
	if diff := cmp.Diff(want, get(), protocmp.Transform()); diff != "" {
		t.Errorf("after the update (-want +got):\n%s", diff)
	}
}

func TestTopicLifeCycle(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	admin := b.client.TopicAdminClient
	if _, err := admin.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{
		Topic: &pubsubpb.Topic{Name: topic, Labels: map[string]string{"a": "b"}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := admin.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: topic})
	if err != nil || got.GetLabels()["a"] != "b" {
		t.Errorf("got %v, %v, want the label", got, err)
	}
	if name, err := admin.ListTopicSubscriptions(t.Context(), &pubsubpb.ListTopicSubscriptionsRequest{Topic: topic}).Next(); err != nil || name != sub {
		t.Errorf("subscriptions of the topic: got %q, %v", name, err)
	}
	if err := admin.DeleteTopic(t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.GetTopic(t.Context(), &pubsubpb.GetTopicRequest{Topic: topic}); status.Code(err) != codes.NotFound {
		t.Errorf("deleted topic: got %v, want NotFound", err)
	}
	s, err := b.sub.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: sub})
	if err != nil || s.GetTopic() != "_deleted-topic_" {
		t.Errorf("subscription of the deleted topic: got %v, %v", s, err)
	}
}

func TestListPages(t *testing.T) {
	b := setup(t)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("projects/demo/topics/topic-%d", i)
		b.createTopic(t, name)
		want = append(want, name)
	}
	b.createTopic(t, "projects/demo2/topics/other")
	var got []string
	it := b.client.TopicAdminClient.ListTopics(t.Context(), &pubsubpb.ListTopicsRequest{Project: "projects/demo", PageSize: 3})
	for {
		topic, err := it.Next()
		if err == iterator.Done { //nolint:errorlint // the documented way
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, topic.GetName())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestSeekOverTheAPI(t *testing.T) {
	b := setup(t)
	b.create(t, func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true })
	b.publish(t, 3)
	s := b.stream(t, nil)
	s.send(t, &pubsubpb.StreamingPullRequest{AckIds: ackIDs(s.next(t, 3))})
	eventually(t, "acked", func() bool { return b.counts(t).Acked == 3 })
	seek := func(to time.Time) {
		t.Helper()
		_, err := b.sub.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(to)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	seek(b.clock.Now().Add(-time.Minute))
	s.next(t, 3)
	seek(b.clock.Now().Add(time.Minute))
	if c := b.counts(t); c.Acked != 3 {
		t.Errorf("after the purge: got %+v, want 3 acked", c)
	}
	_, err := b.sub.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no target: got %v, want InvalidArgument", err)
	}
	_, err = b.sub.Seek(t.Context(), &pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: "s"}})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("snapshot: got %v, want Unimplemented", err)
	}
}

// What is missing says so with its name, and its code is one that tells a client
// not to try again.
func TestMissingServices(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	schemas, err := gcp.NewSchemaClient(t.Context(), option.WithGRPCConn(b.dial(t)))
	if err != nil {
		t.Fatal(err)
	}
	_, schema := schemas.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: "projects/demo", SchemaId: "s", Schema: &pubsubpb.Schema{}})
	_, policy := b.client.TopicAdminClient.GetIamPolicy(t.Context(), &iampb.GetIamPolicyRequest{Resource: topic})
	_, snapshot := b.client.SubscriptionAdminClient.CreateSnapshot(t.Context(), &pubsubpb.CreateSnapshotRequest{Name: "projects/demo/snapshots/s", Subscription: sub})
	push := b.client.SubscriptionAdminClient.ModifyPushConfig(t.Context(), &pubsubpb.ModifyPushConfigRequest{
		Subscription: sub, PushConfig: &pubsubpb.PushConfig{PushEndpoint: "https://example.org"},
	})
	if err := b.client.SubscriptionAdminClient.ModifyPushConfig(t.Context(), &pubsubpb.ModifyPushConfigRequest{Subscription: sub}); err != nil {
		t.Errorf("a push config that means pull: got %v", err)
	}
	for name, err := range map[string]error{"SchemaService": schema, "IAMPolicy": policy, "snapshots": snapshot, "push_config": push} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want Unimplemented", name, err)
		}
	}
}
