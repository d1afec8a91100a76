package publish

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spotbatch/spotbatch/internal/config"
)

// What the workers' subscription asks for.
const (
	// maxDeliveryAttempts is a last safety net: the failure policy of workers
	// gives an item up long before, and the service allows at most 100.
	maxDeliveryAttempts = 100
	// A nacked message comes back after 1s, and later the more often it is
	// nacked, so that an outage does not make deliveries spin: at ten minutes, the
	// longest that the service takes, 100 attempts last more than half a day.
	minRedeliveryDelay = time.Second
	maxRedeliveryDelay = 10 * time.Minute
	// retention is the longest that a subscription keeps unacked messages by
	// default.
	retention = 7 * 24 * time.Hour
	// probeTimeout is how long the first answer is awaited: the clients would
	// wait for an hour.
	probeTimeout = 15 * time.Second
	// Limits of an ack deadline.
	minAckDeadline = 10 * time.Second
	maxAckDeadline = 600 * time.Second
)

// DeadLetterSubscription is the name of the subscription that keeps what comes
// to the dead-letter topic: without one a topic keeps nothing.
func DeadLetterSubscription(deadLetterTopic string) string { return deadLetterTopic + "-sub" }

// Step is one thing that a set-up has seen to.
type Step struct {
	// What names the thing: "topic items".
	What string
	// Created says that it was not there before.
	Created bool
	// Note says what about it is not as asked for; empty when nothing is.
	Note string
}

// Setup creates the topics and subscriptions that are missing, and leaves
// alone what is there. report is called for each. lease becomes the ack
// deadline of the workers' subscription.
func (c *Client) Setup(ctx context.Context, names config.PubSub, lease time.Duration, report func(Step)) error {
	for _, topic := range []string{names.Topic, names.DeadLetterTopic} {
		if err := c.setupTopic(ctx, topic, report); err != nil {
			return err
		}
	}
	deadLetters := &pubsubpb.Subscription{
		Name:                     c.subscriptionPath(DeadLetterSubscription(names.DeadLetterTopic)),
		Topic:                    c.topicPath(names.DeadLetterTopic),
		AckDeadlineSeconds:       60,
		MessageRetentionDuration: durationpb.New(retention),
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{}, // never
	}
	if err := c.setupSubscription(ctx, deadLetters, report); err != nil {
		return err
	}
	return c.setupSubscription(ctx, &pubsubpb.Subscription{
		Name:                     c.subscriptionPath(names.Subscription),
		Topic:                    c.topicPath(names.Topic),
		AckDeadlineSeconds:       int32(min(max(lease, minAckDeadline), maxAckDeadline).Round(time.Second) / time.Second),
		MessageRetentionDuration: durationpb.New(retention),
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{}, // never
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic: c.topicPath(names.DeadLetterTopic), MaxDeliveryAttempts: maxDeliveryAttempts,
		},
		RetryPolicy: &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(minRedeliveryDelay), MaximumBackoff: durationpb.New(maxRedeliveryDelay),
		},
	}, report)
}

// Check returns nil when the topic is there.
func (c *Client) Check(ctx context.Context, topic string) error {
	err := c.getTopic(ctx, topic)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound:
		return fmt.Errorf("topic %s does not exist; run `publisher setup`: %w", c.topicPath(topic), err)
	case codes.PermissionDenied:
		// To publish needs less than to look.
		return nil
	}
	return c.explain("look for topic "+topic, "pubsub.topics.publish", err)
}

func (c *Client) getTopic(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: c.topicPath(name)})
	return err
}

func (c *Client) setupTopic(ctx context.Context, name string, report func(Step)) error {
	step := Step{What: "topic " + name}
	err := c.getTopic(ctx, name)
	if status.Code(err) == codes.NotFound {
		step.Created = true
		_, err = c.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: c.topicPath(name)})
		if status.Code(err) == codes.AlreadyExists { // somebody else was faster
			step.Created, err = false, nil
		}
	}
	if err != nil {
		return c.explain("set up "+step.What, permission(step.Created, "pubsub.topics"), err)
	}
	report(step)
	return nil
}

func (c *Client) setupSubscription(ctx context.Context, want *pubsubpb.Subscription, report func(Step)) error {
	admin := c.client.SubscriptionAdminClient
	step := Step{What: "subscription " + path.Base(want.GetName())}
	get := &pubsubpb.GetSubscriptionRequest{Subscription: want.GetName()}
	found, err := admin.GetSubscription(ctx, get)
	if status.Code(err) == codes.NotFound {
		step.Created = true
		_, err = admin.CreateSubscription(ctx, want)
		if status.Code(err) == codes.AlreadyExists {
			step.Created = false
			found, err = admin.GetSubscription(ctx, get)
		}
	}
	if err != nil {
		return c.explain("set up "+step.What, permission(step.Created, "pubsub.subscriptions"), err)
	}
	if !step.Created {
		if found.GetTopic() != want.GetTopic() {
			return fmt.Errorf("set up %s: it belongs to %s instead of %s; delete it, or name another in the configuration",
				step.What, found.GetTopic(), want.GetTopic())
		}
		step.Note = difference(found, want)
	}
	report(step)
	return nil
}

// difference says what of an existing subscription would lose or delay items.
func difference(found, want *pubsubpb.Subscription) string {
	switch {
	case found.GetDeadLetterPolicy().GetDeadLetterTopic() != want.GetDeadLetterPolicy().GetDeadLetterTopic():
		return fmt.Sprintf("its dead-letter topic is %q; update it to %q",
			found.GetDeadLetterPolicy().GetDeadLetterTopic(), want.GetDeadLetterPolicy().GetDeadLetterTopic())
	case found.GetDeadLetterPolicy().GetMaxDeliveryAttempts() < want.GetDeadLetterPolicy().GetMaxDeliveryAttempts():
		return fmt.Sprintf("its max delivery attempts are %d; update them to %d, or preemptions make dead letters",
			found.GetDeadLetterPolicy().GetMaxDeliveryAttempts(), want.GetDeadLetterPolicy().GetMaxDeliveryAttempts())
	case found.GetExpirationPolicy().GetTtl() != nil:
		return "it expires when it is not used; update it to never expire"
	case found.GetDetached():
		return "it is detached from its topic; delete it and run `publisher setup` again"
	}
	return ""
}

// permission is what the call that failed needs.
func permission(creating bool, kind string) string {
	if creating {
		return kind + ".create"
	}
	return kind + ".get"
}

// explain wraps err with what to do about it.
func (c *Client) explain(action, permission string, err error) error {
	code := status.Code(err)
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("%s: the account in use needs the permission %s on projects/%s, which is in roles/pubsub.editor: %w",
			action, permission, c.project, err)
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("%s: no answer from Pub/Sub; check the network and PUBSUB_EMULATOR_HOST: %w", action, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}

func (c *Client) topicPath(name string) string {
	return "projects/" + c.project + "/topics/" + name
}

func (c *Client) subscriptionPath(name string) string {
	return "projects/" + c.project + "/subscriptions/" + name
}
