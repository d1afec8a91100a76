package publish

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/item"
)

// Confirmation is the answer that is awaited for one message.
type Confirmation interface {
	// Wait returns nil when Pub/Sub has the message for good, an error when it
	// could not be sent, and ctx's error when that comes first.
	Wait(ctx context.Context) error
}

// Topic takes messages. Its methods are safe for concurrent use.
type Topic interface {
	// Publish sends the item. It blocks while too much is unconfirmed, at most
	// until ctx is done; the message is sent after that all the same once
	// Publish has returned.
	Publish(ctx context.Context, it item.Item) Confirmation
}

// Client is a connection to Pub/Sub. It must be closed, and is not safe for
// concurrent use; its topics are.
type Client struct {
	client  *pubsub.Client
	project string
	closed  atomic.Bool
	// publishers have goroutines of their own, which Close ends.
	publishers []*pubsub.Publisher
}

// Connect connects to Pub/Sub in a project. PUBSUB_EMULATOR_HOST is respected
// and needs no credentials. tracing puts trace context on messages; opts are
// for tests.
func Connect(ctx context.Context, project string, tracing bool, opts ...option.ClientOption) (*Client, error) {
	c := &Client{project: project}
	var err error
	c.client, err = pubsub.NewClientWithConfig(ctx, project, &pubsub.ClientConfig{
		EnableOpenTelemetryTracing: tracing,
		TopicAdminCallOptions: &apiv1.TopicAdminCallOptions{
			Publish: []gax.CallOption{gax.WithRetry(func() gax.Retryer { return c.retryer() })},
		},
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to Pub/Sub: %w", err)
	}
	return c, nil
}

// retryer repeats what the client's own would, with shorter waits, and nothing
// after Close: the client would go on for a minute, since to it a closed
// connection is one that may come back.
func (c *Client) retryer() gax.Retryer {
	return gax.OnErrorFunc(gax.Backoff{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Multiplier: 2}, func(err error) bool {
		if c.closed.Load() {
			return false
		}
		switch status.Code(err) {
		case codes.Aborted, codes.Canceled, codes.Internal, codes.ResourceExhausted,
			codes.Unknown, codes.Unavailable, codes.DeadlineExceeded:
			return true
		}
		return false
	})
}

// Close ends the connection. Messages that are not confirmed by then may be
// lost.
func (c *Client) Close() error {
	// In this order: to stop a publisher is to wait until it has sent
	// everything, or has given up.
	c.closed.Store(true)
	err := c.client.Close()
	for _, p := range c.publishers {
		p.Stop()
	}
	if err != nil {
		return fmt.Errorf("close Pub/Sub: %w", err)
	}
	return nil
}

// Topic returns the topic of the given short name. At most cfg's messages and
// bytes are unconfirmed at any time.
func (c *Client) Topic(name string, cfg config.Publish) Topic {
	publisher := c.client.Publisher(name)
	publisher.PublishSettings.FlowControlSettings = pubsub.FlowControlSettings{
		MaxOutstandingMessages: cfg.MaxOutstanding,
		MaxOutstandingBytes:    int(cfg.MaxOutstandingBytes),
		LimitExceededBehavior:  pubsub.FlowControlBlock,
	}
	// Larger requests than the client's default of 100 messages: a request
	// costs more than a message. Its byte threshold stays.
	publisher.PublishSettings.CountThreshold = min(pubsub.MaxPublishRequestCount, max(1, cfg.MaxOutstanding/2))
	c.publishers = append(c.publishers, publisher)
	return pubsubTopic{publisher}
}

type pubsubTopic struct{ publisher *pubsub.Publisher }

func (t pubsubTopic) Publish(ctx context.Context, it item.Item) Confirmation {
	return confirmation{t.publisher.Publish(ctx, &pubsub.Message{Data: it.Data, Attributes: it.Attributes()})}
}

type confirmation struct{ result *pubsub.PublishResult }

func (c confirmation) Wait(ctx context.Context) error {
	_, err := c.result.Get(ctx)
	return err
}
