package pubsub

import (
	"context"
	"maps"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// subscriptionFields are the fields of a Subscription that have an effect here
// or are set by the server only.
var subscriptionFields = map[string]bool{
	"name": true, "topic": true, "ack_deadline_seconds": true, "retain_acked_messages": true,
	"message_retention_duration": true, "labels": true, "expiration_policy": true,
	"dead_letter_policy": true, "retry_policy": true, "enable_exactly_once_delivery": true,
	"enable_message_ordering": true, "filter": true,
	"detached": true, "topic_message_retention_duration": true, "state": true,
}

// mutableFields are those that an update may name, immutableFields those that the
// service never changes.
var (
	mutableFields = map[string]bool{
		"ack_deadline_seconds": true, "retain_acked_messages": true, "message_retention_duration": true,
		"labels": true, "expiration_policy": true, "dead_letter_policy": true, "retry_policy": true,
		"enable_exactly_once_delivery": true,
	}
	immutableFields = []string{
		"name", "topic", "filter", "enable_message_ordering",
		"detached", "topic_message_retention_duration", "state", "analytics_hub_subscription_info", "tags",
	}
)

func (s *subscriber) CreateSubscription(_ context.Context, p *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := checkName(p.GetName(), "subscriptions"); err != nil {
		return nil, err
	}
	if err := checkName(p.GetTopic(), "topics"); err != nil {
		return nil, err
	}
	if err := onlyFields(p, subscriptionFields); err != nil {
		return nil, err
	}
	match, err := parseFilter(p.GetFilter())
	if err != nil {
		return nil, err
	}
	c := broker.SubscriptionConfig{
		Name: p.GetName(), Topic: p.GetTopic(),
		Ordered: p.GetEnableMessageOrdering(), Filter: p.GetFilter(), Match: match,
	}
	if err := configure(&c, p); err != nil {
		return nil, err
	}
	if err := s.broker.CreateSubscription(c); err != nil {
		return nil, toStatus(err)
	}
	if c, err = s.broker.Subscription(c.Name); err != nil {
		return nil, toStatus(err)
	}
	return subscriptionProto(c), nil
}

func (s *subscriber) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	c, err := s.broker.Subscription(req.GetSubscription())
	if err != nil {
		return nil, toStatus(err)
	}
	return subscriptionProto(c), nil
}

func (s *subscriber) UpdateSubscription(_ context.Context, req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	p := req.GetSubscription()
	if err := checkName(p.GetName(), "subscriptions"); err != nil {
		return nil, err
	}
	c, err := s.broker.UpdateSubscription(p.GetName(), func(c *broker.SubscriptionConfig) error {
		merged := subscriptionProto(*c)
		if err := merge(merged, p, req.GetUpdateMask().GetPaths(), mutableFields, immutableFields); err != nil {
			return err
		}
		return configure(c, merged)
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return subscriptionProto(c), nil
}

func (s *subscriber) ListSubscriptions(_ context.Context, req *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	if err := checkProject(req.GetProject()); err != nil {
		return nil, err
	}
	all := make(map[string]broker.SubscriptionConfig)
	var names []string
	for _, c := range s.broker.Subscriptions() {
		if strings.HasPrefix(c.Name, req.GetProject()+"/") {
			all[c.Name] = c
			names = append(names, c.Name)
		}
	}
	names, next, err := page(names, req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	resp := &pubsubpb.ListSubscriptionsResponse{NextPageToken: next}
	for _, name := range names {
		resp.Subscriptions = append(resp.Subscriptions, subscriptionProto(all[name]))
	}
	return resp, nil
}

func (s *subscriber) DeleteSubscription(_ context.Context, req *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	if err := s.broker.DeleteSubscription(req.GetSubscription()); err != nil {
		return nil, toStatus(err)
	}
	return &emptypb.Empty{}, nil
}

func (s *subscriber) ModifyPushConfig(_ context.Context, req *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	if !isEmpty(req.GetPushConfig().ProtoReflect()) {
		return nil, unimplemented("push_config of a subscription")
	}
	// It means pull, which every subscription here is anyway.
	if _, err := s.broker.Properties(req.GetSubscription()); err != nil {
		return nil, toStatus(err)
	}
	return &emptypb.Empty{}, nil
}

func (s *subscriber) CreateSnapshot(context.Context, *pubsubpb.CreateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, unimplemented("snapshots")
}

func (s *subscriber) GetSnapshot(context.Context, *pubsubpb.GetSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, unimplemented("snapshots")
}

func (s *subscriber) ListSnapshots(context.Context, *pubsubpb.ListSnapshotsRequest) (*pubsubpb.ListSnapshotsResponse, error) {
	return nil, unimplemented("snapshots")
}

func (s *subscriber) UpdateSnapshot(context.Context, *pubsubpb.UpdateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, unimplemented("snapshots")
}

func (s *subscriber) DeleteSnapshot(context.Context, *pubsubpb.DeleteSnapshotRequest) (*emptypb.Empty, error) {
	return nil, unimplemented("snapshots")
}

// configure checks the mutable fields of the API and puts them into the broker's
// description.
func configure(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	c.RetainAcked = p.GetRetainAckedMessages()
	c.ExactlyOnce = p.GetEnableExactlyOnceDelivery()
	c.Labels = maps.Clone(p.GetLabels())
	for _, set := range []func(*broker.SubscriptionConfig, *pubsubpb.Subscription) error{
		setAckDeadline, setRetention, setExpiration, setDeadLetter, setRetry,
	} {
		if err := set(c, p); err != nil {
			return err
		}
	}
	return nil
}

func setAckDeadline(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	seconds := p.GetAckDeadlineSeconds()
	if seconds == 0 {
		seconds = minAckDeadline
	}
	c.AckDeadline = time.Duration(seconds) * time.Second
	return checkAckDeadline("ack_deadline_seconds", seconds)
}

func setRetention(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	d, err := duration("message_retention_duration", p.GetMessageRetentionDuration(), defaultRetention, minRetention, maxRetention)
	c.Retention = d
	return err
}

func setExpiration(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	if p.GetExpirationPolicy() == nil {
		c.ExpirationTTL = defaultExpirationTTL
		return nil
	}
	ttl := p.GetExpirationPolicy().GetTtl()
	if ttl == nil || ttl.AsDuration() == 0 {
		c.ExpirationTTL = 0 // never
		return nil
	}
	d, err := duration("expiration_policy.ttl", ttl, 0, minExpirationTTL, 1<<62)
	c.ExpirationTTL = d
	return err
}

func setDeadLetter(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	policy := p.GetDeadLetterPolicy()
	if policy == nil {
		c.DeadLetter = nil
		return nil
	}
	if err := checkName(policy.GetDeadLetterTopic(), "topics"); err != nil {
		return err
	}
	attempts := policy.GetMaxDeliveryAttempts()
	if attempts == 0 {
		attempts = minDeliveryAttempts
	}
	if attempts < minDeliveryAttempts || attempts > maxDeliveryAttempts {
		return invalid("max_delivery_attempts is %d: want %d to %d", attempts, minDeliveryAttempts, maxDeliveryAttempts)
	}
	c.DeadLetter = &broker.DeadLetterPolicy{Topic: policy.GetDeadLetterTopic(), MaxAttempts: int(attempts)}
	return nil
}

func setRetry(c *broker.SubscriptionConfig, p *pubsubpb.Subscription) error {
	policy := p.GetRetryPolicy()
	if policy == nil {
		c.Retry = nil
		return nil
	}
	low, err := duration("retry_policy.minimum_backoff", policy.GetMinimumBackoff(), defaultMinBackoff, 0, maxBackoff)
	if err != nil {
		return err
	}
	high, err := duration("retry_policy.maximum_backoff", policy.GetMaximumBackoff(), maxBackoff, 0, maxBackoff)
	if err != nil {
		return err
	}
	if low > high {
		return invalid("retry_policy.minimum_backoff is %v, which is more than maximum_backoff %v", low, high)
	}
	c.Retry = &broker.RetryPolicy{Min: low, Max: high}
	return nil
}

// duration checks a duration of the API; nil stands for its default.
func duration(field string, d *durationpb.Duration, def, low, high time.Duration) (time.Duration, error) {
	if d == nil {
		return def, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, invalid("%s is no valid duration: %v", field, err)
	}
	if v := d.AsDuration(); v < low || v > high {
		return 0, invalid("%s is %v: want %v to %v", field, v, low, high)
	}
	return d.AsDuration(), nil
}

func subscriptionProto(c broker.SubscriptionConfig) *pubsubpb.Subscription {
	p := &pubsubpb.Subscription{
		Name:                     c.Name,
		Topic:                    c.Topic,
		AckDeadlineSeconds:       int32(c.AckDeadline / time.Second),
		RetainAckedMessages:      c.RetainAcked,
		MessageRetentionDuration: durationpb.New(c.Retention),
		Labels:                   c.Labels,
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{},
		Detached:                 c.Detached,
		State:                    pubsubpb.Subscription_ACTIVE,

		EnableExactlyOnceDelivery: c.ExactlyOnce,
		EnableMessageOrdering:     c.Ordered,
		Filter:                    c.Filter,
	}
	if c.TopicRetention > 0 {
		p.TopicMessageRetentionDuration = durationpb.New(c.TopicRetention)
	}
	if c.ExpirationTTL > 0 {
		p.ExpirationPolicy.Ttl = durationpb.New(c.ExpirationTTL)
	}
	if d := c.DeadLetter; d != nil {
		p.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic:     d.Topic,
			MaxDeliveryAttempts: int32(d.MaxAttempts),
		}
	}
	if r := c.Retry; r != nil {
		p.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(r.Min), MaximumBackoff: durationpb.New(r.Max)}
	}
	return p
}
