package pubsub_test

import (
	"context"
	"slices"
	"testing"
	"time"

	gpubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

func exactly(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true }

// The official client tells the handler what became of its ack.
func TestExactlyOnceAckResults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		settle func(b *bed, m *gpubsub.Message) *gpubsub.AckResult
		want   gpubsub.AcknowledgeStatus
	}{
		{"ack", func(_ *bed, m *gpubsub.Message) *gpubsub.AckResult { return m.AckWithResult() }, gpubsub.AcknowledgeStatusSuccess},
		{"nack", func(_ *bed, m *gpubsub.Message) *gpubsub.AckResult { return m.NackWithResult() }, gpubsub.AcknowledgeStatusSuccess},
		{"ack after the lease", func(b *bed, m *gpubsub.Message) *gpubsub.AckResult {
			b.clock.Advance(10 * time.Minute)
			return m.AckWithResult()
		}, gpubsub.AcknowledgeStatusInvalidAckID},
		{"nack after the lease", func(b *bed, m *gpubsub.Message) *gpubsub.AckResult {
			b.clock.Advance(10 * time.Minute)
			return m.NackWithResult()
		}, gpubsub.AcknowledgeStatusInvalidAckID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.create(t, exactly)
			b.publish(t, 1)
			results := make(chan gpubsub.AcknowledgeStatus, 10)
			stop := receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
				got, _ := tt.settle(b, m).Get(context.Background())
				select {
				case results <- got: // the first one; it comes again after a nack
				default:
				}
			})
			if got := <-results; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			stop()
		})
	}
}

// An unary ack names the ack IDs that did nothing and carries out the others.
func TestExactlyOnceErrorInfo(t *testing.T) {
	b := setup(t)
	b.create(t, exactly)
	b.publish(t, 3)
	admin := b.client.SubscriptionAdminClient
	resp, err := admin.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 3})
	if err != nil {
		t.Fatal(err)
	}
	ids := ackIDs(resp.GetReceivedMessages())
	if err := admin.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: ids[:1]}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ids[0]: "PERMANENT_FAILURE_INVALID_ACK_ID", "nonsense": "PERMANENT_FAILURE_INVALID_ACK_ID"}
	check := func(name string, err error) {
		t.Helper()
		var apiErr *apierror.APIError
		if apiErr, _ = apierror.FromError(err); apiErr == nil {
			t.Fatalf("%s: got %v, want an API error", name, err)
		}
		if apiErr.GRPCStatus().Code() != codes.InvalidArgument || apiErr.Reason() != "EXACTLY_ONCE_ACKID_FAILURE" || apiErr.Domain() != "pubsub.googleapis.com" {
			t.Errorf("%s: got %v", name, apiErr)
		}
		if diff := cmp.Diff(want, apiErr.Metadata()); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", name, diff)
		}
	}
	check("modack", admin.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: sub, AckIds: []string{ids[0], ids[1], "nonsense"}, AckDeadlineSeconds: 60,
	}))
	check("ack", admin.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{
		Subscription: sub, AckIds: []string{ids[0], ids[1], ids[1], "nonsense", ids[2]},
	}))
	if c := b.counts(t); c.Acked != 2 {
		t.Errorf("got %+v, want 2 acked", c)
	}
}

// On a stream the outcome comes as confirmations.
func TestExactlyOnceConfirmations(t *testing.T) {
	b := setup(t)
	b.create(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery, s.EnableMessageOrdering = true, true })
	for _, data := range []string{"1", "2", "3"} {
		_, err := b.pub.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(data), OrderingKey: "k"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	s := b.stream(t, nil)
	properties := &pubsubpb.StreamingPullResponse_SubscriptionProperties{ExactlyOnceDeliveryEnabled: true, MessageOrderingEnabled: true}
	answer := func(req *pubsubpb.StreamingPullRequest, want *pubsubpb.StreamingPullResponse) {
		t.Helper()
		s.send(t, req)
		want.SubscriptionProperties = properties
		got := <-s.empty
		for got.GetAcknowledgeConfirmation() == nil && got.GetModifyAckDeadlineConfirmation() == nil {
			got = <-s.empty
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("response (-want +got):\n%s", diff)
		}
	}
	ids := ackIDs(s.next(t, 3))
	answer(&pubsubpb.StreamingPullRequest{AckIds: []string{ids[1], "nonsense"}}, &pubsubpb.StreamingPullResponse{
		AcknowledgeConfirmation: &pubsubpb.StreamingPullResponse_AcknowledgeConfirmation{UnorderedAckIds: ids[1:2], InvalidAckIds: []string{"nonsense"}},
	})
	answer(&pubsubpb.StreamingPullRequest{
		AckIds: []string{ids[1], ids[0]}, ModifyDeadlineAckIds: []string{ids[2], ids[0]}, ModifyDeadlineSeconds: []int32{30, 30},
	}, &pubsubpb.StreamingPullResponse{
		AcknowledgeConfirmation:       &pubsubpb.StreamingPullResponse_AcknowledgeConfirmation{AckIds: []string{ids[1], ids[0]}},
		ModifyAckDeadlineConfirmation: &pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation{AckIds: ids[2:3], InvalidAckIds: ids[:1]},
	})
}

// A running stream learns that the subscription has changed.
func TestExactlyOnceSwitchedOn(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	s := b.stream(t, nil)
	if first := <-s.empty; first.GetSubscriptionProperties().GetExactlyOnceDeliveryEnabled() {
		t.Fatal("exactly-once delivery is on")
	}
	_, err := b.sub.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: sub, EnableExactlyOnceDelivery: true},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"enable_exactly_once_delivery"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if next := <-s.empty; !next.GetSubscriptionProperties().GetExactlyOnceDeliveryEnabled() {
		t.Error("the stream was told nothing")
	}
}

// The handler sees the messages of a key in order, and after a nack again from
// the one that was nacked.
func TestOrderingWithTheClient(t *testing.T) {
	for name, change := range map[string]func(*pubsubpb.Subscription){
		"at least once": func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true },
		"exactly once":  func(s *pubsubpb.Subscription) { s.EnableMessageOrdering, s.EnableExactlyOnceDelivery = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.create(t, change)
			publisher := b.client.Publisher(topic)
			publisher.EnableMessageOrdering = true
			var want []string
			for i := range 20 {
				data := string(rune('a' + i))
				want = append(want, data)
				publisher.Publish(t.Context(), &gpubsub.Message{Data: []byte(data), OrderingKey: "k"})
			}
			publisher.Stop()

			var handled []string // by the one handler at a time that the client runs for a key
			nacked := false
			stop := receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
				if data := string(m.Data); data == "k" && !nacked {
					nacked = true
					m.Nack()
					return
				}
				handled = append(handled, string(m.Data))
				m.Ack()
			})
			eventually(t, "all are acked", func() bool { return b.counts(t).Acked == len(want) })
			stop()
			if !nacked {
				t.Error("the nack did not happen")
			}
			// What came before the nack took hold may be there twice; without that it is in order.
			again := slices.Index(handled, "l")
			if k := slices.Index(handled, "k"); k > again && again >= 0 {
				handled = slices.Delete(handled, again, k)
			}
			if diff := cmp.Diff(want, handled); diff != "" {
				t.Errorf("handled (-want +got):\n%s", diff)
			}
		})
	}
}

// An ack that overtakes an earlier message of its key fails for a while: the
// client tries it again by itself until the earlier one is acked.
func TestTransientFailureWithTheClient(t *testing.T) {
	b := setup(t)
	b.create(t, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering, s.EnableExactlyOnceDelivery = true, true })
	for range 2 {
		_, err := b.pub.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x"), OrderingKey: "k"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	messages := make(chan *gpubsub.Message, 2)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) { messages <- m })
	first, second := <-messages, <-messages
	overtaking := second.AckWithResult()
	select {
	case <-overtaking.Ready():
		got, err := overtaking.Get(t.Context())
		t.Fatalf("the ack that overtakes: got %v, %v before the other ack", got, err)
	case <-time.After(500 * time.Millisecond):
	}
	for name, result := range map[string]*gpubsub.AckResult{"the first": first.AckWithResult(), "the second": overtaking} {
		if got, err := result.Get(t.Context()); got != gpubsub.AcknowledgeStatusSuccess {
			t.Errorf("ack of %s: got %v, %v", name, got, err)
		}
	}
	if c := b.counts(t); c.Acked != 2 {
		t.Errorf("got %+v, want both acked", c)
	}
}
