package pubsub_test

import (
	"context"
	"testing"
	"time"

	gpubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Receive ends with the service's code when its subscription goes away.
func TestReceiveEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *bed) error
		want codes.Code
		pull codes.Code // of a pull afterwards
	}{
		{"detached", func(b *bed) error {
			_, err := b.client.TopicAdminClient.DetachSubscription(context.Background(), &pubsubpb.DetachSubscriptionRequest{Subscription: sub})
			return err
		}, codes.FailedPrecondition, codes.FailedPrecondition},
		{"deleted", func(b *bed) error {
			return b.client.SubscriptionAdminClient.DeleteSubscription(context.Background(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub})
		}, codes.NotFound, codes.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.create(t, nil)
			b.publish(t, 1)
			got := make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				ended <- b.client.Subscriber(sub).Receive(context.Background(), func(_ context.Context, m *gpubsub.Message) {
					m.Ack()
					close(got)
				})
			}()
			<-got
			if err := tt.do(b); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; status.Code(err) != tt.want {
				t.Errorf("Receive: got %v, want %v", err, tt.want)
			}
			_, err := b.client.SubscriptionAdminClient.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1})
			if status.Code(err) != tt.pull {
				t.Errorf("Pull: got %v, want %v", err, tt.pull)
			}
			b.publish(t, 1) // the topic lives on
		})
	}
}

// A message that is nacked again and again comes back after 10, 20, 40 s and so on,
// but never after more than the maximum.
func TestRetryPolicy(t *testing.T) {
	b := setup(t)
	b.create(t, func(s *pubsubpb.Subscription) {
		s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(10 * time.Second), MaximumBackoff: durationpb.New(50 * time.Second)}
	})
	b.publish(t, 1)
	nacks := make(chan struct{}, 10)
	receive(t, b.client.Subscriber(sub), func(m *gpubsub.Message) {
		m.Nack()
		nacks <- struct{}{}
	})
	var got []time.Duration
	for range 5 {
		<-nacks
		eventually(t, "it waits", func() bool { return b.counts(t).Delayed == 1 })
		waited := time.Duration(0)
		for b.counts(t).Delayed == 1 {
			b.clock.Advance(time.Second)
			waited += time.Second
		}
		got = append(got, waited)
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 50 * time.Second, 50 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back-offs (-want +got):\n%s", diff)
	}
}
