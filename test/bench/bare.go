package main

import (
	"context"
	"errors"

	"cloud.google.com/go/pubsub/v2"
)

// serveBare is the least that can be done with the official client: receive
// and ack, with as many messages outstanding as the worker has, on one stream.
func serveBare(ctx context.Context, j *job) (err error) {
	client, err := pubsub.NewClient(ctx, j.cfg.Project)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	subscriber := client.Subscriber(j.cfg.PubSub.Subscription)
	subscriber.ReceiveSettings.MaxOutstandingMessages = j.cfg.Pull.MaxOutstanding
	subscriber.ReceiveSettings.MaxOutstandingBytes = int(j.cfg.Pull.MaxOutstandingBytes)
	subscriber.ReceiveSettings.NumGoroutines = 1
	j.isReady()
	return subscriber.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		j.begin(1)
		m.Ack()
	})
}
