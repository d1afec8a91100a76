package main

import (
	"context"
	"errors"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/spanner"
	"golang.org/x/sync/errgroup"
)

// serveBare is the least that can be done with the official client: receive
// and ack, with as many messages outstanding as the worker has, on one stream.
func serveBare(ctx context.Context, j *job) (err error) {
	client, err := pubsub.NewClient(ctx, j.cfg.Project)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	j.isReady()
	return j.subscriber(client).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		j.begin(1)
		m.Ack()
	})
}

func (j *job) subscriber(client *pubsub.Client) *pubsub.Subscriber {
	s := client.Subscriber(j.cfg.PubSub.Subscription)
	s.ReceiveSettings.MaxOutstandingMessages = j.cfg.Pull.MaxOutstanding
	s.ReceiveSettings.MaxOutstandingBytes = int(j.cfg.Pull.MaxOutstandingBytes)
	s.ReceiveSettings.NumGoroutines = 1
	return s
}

// serveBareStore is the least that stores results with the official clients:
// it receives, and as many as have gathered at once are looked up, written and
// acked, as many times side by side as the worker does. It has no model, no
// batches, no failures, no drain and no metrics.
func serveBareStore(ctx context.Context, j *job) (err error) {
	client, err := pubsub.NewClient(ctx, j.cfg.Project)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	rows, err := spanner.NewClientWithConfig(ctx, j.cfg.Spanner.Database, spanner.ClientConfig{DisableNativeMetrics: true})
	if err != nil {
		return err
	}
	defer rows.Close()
	loop := textbook{job: j, rows: rows}
	arrived := make(chan *pubsub.Message, j.cfg.Pull.MaxOutstanding)
	// What has come is stored and acked after the stop, too; without anybody who
	// stores there is no use in receiving.
	receiveCtx, stop := context.WithCancel(ctx)
	defer stop()
	storing, storeCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	for range j.cfg.Commit.Concurrency {
		storing.Go(func() error {
			defer stop()
			return loop.storeAll(storeCtx, arrived)
		})
	}
	j.isReady()
	err = j.subscriber(client).Receive(receiveCtx, func(_ context.Context, m *pubsub.Message) { arrived <- m })
	close(arrived)
	return errors.Join(err, storing.Wait())
}

// storeAll stores and acks what arrives, as much at once as has gathered.
func (t textbook) storeAll(ctx context.Context, arrived <-chan *pubsub.Message) error {
	for first := range arrived {
		batch := gather(first, arrived)
		byID := make(map[string]spanner.Key, len(batch))
		for _, m := range batch {
			addKey(byID, m.Attributes)
		}
		t.begin(len(batch))
		if err := errors.Join(t.skipStored(ctx, byID), t.upsert(ctx, byID)); err != nil {
			return err
		}
		for _, m := range batch {
			m.Ack()
		}
	}
	return nil
}

// gather returns first and what else has come. It never waits: several gather
// from one channel, and what they hold while they wait would not be acked, so
// that nothing more comes.
func gather[T any](first T, arrived <-chan T) []T {
	batch := []T{first}
	for {
		select {
		case next, open := <-arrived:
			if !open {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
}
