// Package pull is the adapter between a Pub/Sub subscription and the worker's
// deliveries.
//
// Acks and nacks are sent by the official client, from inside its handler, and
// only there. Its own timed shutdown is not used: with it, acks and nacks that
// come after the stop are never sent although Receive returns nil. Instead the
// core settles every delivery by its own deadline, and Receive returns when
// the client has sent all of it.
package pull

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var (
	_ worker.Source      = (*Subscription)(nil)
	_ worker.DeadLetters = (*Subscription)(nil)
)

// AttrReason is the attribute of a buried message that says why.
const AttrReason = "spotbatch_reason"

// Limits of Pub/Sub: bytes of an attribute's value, attributes of a message.
const (
	maxReasonBytes = 1024
	maxAttributes  = 100
)

// Subscription is one subscription and the dead-letter topic beside it. Make
// it with Open; it is safe for concurrent use, but only one Receive may run.
type Subscription struct {
	client  *pubsub.Client
	tap     *tap
	sub     *pubsub.Subscriber
	dead    *pubsub.Publisher
	path    string
	deadTop string
	lease   time.Duration
}

// Open connects to the subscription. The connection is made when it is first
// used. With PUBSUB_EMULATOR_HOST set no credentials are needed. The caller
// closes it.
func Open(ctx context.Context, project string, names config.PubSub, cfg config.Pull, opts ...option.ClientOption) (*Subscription, error) {
	t := newTap()
	opts = append(slices.Clip(opts), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(t.intercept)))
	client, err := pubsub.NewClientWithConfig(ctx, project, &pubsub.ClientConfig{EnableOpenTelemetryTracing: true}, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to Pub/Sub: %w", err)
	}
	sub := client.Subscriber(names.Subscription)
	sub.ReceiveSettings = pubsub.ReceiveSettings{
		MaxOutstandingMessages: cfg.MaxOutstanding,
		MaxOutstandingBytes:    int(cfg.MaxOutstandingBytes),
		MaxExtension:           cfg.MaxLease,
		// Both ends are pinned: left alone, the client derives the lease from
		// how fast earlier messages were acked.
		MinDurationPerAckExtension: cfg.Lease,
		MaxDurationPerAckExtension: cfg.Lease,
		// The service applies the limits to each stream: one stream keeps
		// what is held at what was asked for.
		NumGoroutines: 1,
	}
	dead := client.Publisher(names.DeadLetterTopic)
	dead.PublishSettings.CountThreshold = 1
	s := &Subscription{
		tap:     t,
		client:  client,
		sub:     sub,
		dead:    dead,
		path:    fmt.Sprintf("projects/%s/subscriptions/%s", project, names.Subscription),
		deadTop: fmt.Sprintf("projects/%s/topics/%s", project, names.DeadLetterTopic),
		lease:   cfg.MaxLease,
	}
	t.nack = s.nackRaw
	return s, nil
}

// nackTimeout bounds the nack of deliveries that no handler saw. When it fails
// they come back at the end of their lease.
const nackTimeout = time.Second

// ackIDsPerCall keeps a request below the limit of 512 KiB that Pub/Sub sets.
const ackIDsPerCall = 1000

// nackRaw gives deliveries back that the client does not know of.
func (s *Subscription) nackRaw(ackIDs []string) {
	ctx, cancel := context.WithTimeout(context.Background(), nackTimeout)
	defer cancel()
	for chunk := range slices.Chunk(ackIDs, ackIDsPerCall) {
		// A failure costs time, not messages: see nackTimeout.
		_ = s.client.SubscriptionAdminClient.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
			Subscription: s.path, AckIds: chunk, AckDeadlineSeconds: 0,
		})
	}
}

// Check asks whether the subscription and the dead-letter topic exist.
// A missing permission to look is no error: pulling needs less.
func (s *Subscription) Check(ctx context.Context) error {
	_, err := s.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: s.path})
	if err := missing(err, "pubsub.subscription", s.path); err != nil {
		return err
	}
	_, err = s.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: s.deadTop})
	return missing(err, "pubsub.dead_letter_topic", s.deadTop)
}

func missing(err error, key, path string) error {
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied:
		return nil
	case codes.NotFound:
		return fmt.Errorf("%s: %s does not exist; create it with `publisher setup`", key, path)
	default:
		return fmt.Errorf("look for %s: %w", path, err)
	}
}

// Receive implements worker.Source.
func (s *Subscription) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	shut, emptied := s.tap.open()
	defer shut()
	defer context.AfterFunc(ctx, shut)()
	err := s.sub.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		d := &worker.Delivery{
			MessageID:  m.ID,
			Data:       m.Data,
			Attributes: m.Attributes,
			LeaseEnd:   time.Now().Add(s.lease),
		}
		if m.DeliveryAttempt != nil {
			d.Attempt = *m.DeliveryAttempt
		}
		settlement := handle(context.WithoutCancel(ctx), d)
		if ctx.Err() != nil {
			// What is given back must not come back to this stream.
			shut()
			emptied()
		}
		switch settlement {
		case worker.Ack:
			m.Ack()
		case worker.Nack:
			m.Nack()
		case worker.Abandon:
			// The message may be somebody else's by now.
		}
	})
	if err != nil {
		return fmt.Errorf("receive from %s: %w", s.path, err)
	}
	return nil
}

// Bury implements worker.DeadLetters: it publishes the message as it came,
// with the reason, and waits for the confirmation.
func (s *Subscription) Bury(ctx context.Context, d *worker.Delivery, reason string) error {
	attrs := make(map[string]string, len(d.Attributes)+1)
	attrs[AttrReason] = cut(reason)
	// A message that is full already loses what does not fit.
	for _, k := range slices.Sorted(maps.Keys(d.Attributes)) {
		if len(attrs) < maxAttributes {
			attrs[k] = d.Attributes[k]
		}
	}
	if _, err := s.dead.Publish(ctx, &pubsub.Message{Data: d.Data, Attributes: attrs}).Get(ctx); err != nil {
		return fmt.Errorf("publish to %s: %w", s.deadTop, err)
	}
	return nil
}

// cut shortens a reason to what an attribute holds, without half a rune.
func cut(reason string) string {
	if len(reason) <= maxReasonBytes {
		return reason
	}
	end := maxReasonBytes
	for end > 0 && reason[end]&0xC0 == 0x80 {
		end--
	}
	return reason[:end]
}

// Close ends the connection. What Receive settled has been sent already.
func (s *Subscription) Close() error {
	s.dead.Stop()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		return fmt.Errorf("close Pub/Sub client: %w", err)
	}
	return nil
}
