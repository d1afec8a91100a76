package main

import (
	"context"
	"errors"
	"hash/crc32"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/spanner"
)

// textbookBatch is how many messages the plain loop asks for, as most examples
// do.
const textbookBatch = 10

// serveTextbook is the plain loop: pull, check what is stored, infer, upsert,
// ack, repeat, one after the other, with the official clients.
func serveTextbook(ctx context.Context, j *job) (err error) {
	messages, err := pubsub.NewClient(ctx, j.cfg.Project)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, messages.Close()) }()
	rows, err := spanner.NewClientWithConfig(ctx, j.cfg.Spanner.Database, spanner.ClientConfig{DisableNativeMetrics: true})
	if err != nil {
		return err
	}
	defer rows.Close()
	loop := textbook{job: j, messages: messages, rows: rows}
	j.isReady()
	for ctx.Err() == nil {
		if err := loop.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

type textbook struct {
	*job
	messages *pubsub.Client
	rows     *spanner.Client
}

func (t textbook) once(ctx context.Context) error {
	subscription := "projects/" + t.cfg.Project + "/subscriptions/" + t.cfg.PubSub.Subscription
	pulled, err := t.messages.SubscriptionAdminClient.Pull(ctx, &pubsubpb.PullRequest{Subscription: subscription, MaxMessages: textbookBatch})
	if err != nil {
		return err
	}
	var ackIDs []string
	byID := make(map[string]spanner.Key)
	for _, m := range pulled.GetReceivedMessages() {
		ackIDs = append(ackIDs, m.GetAckId())
		addKey(byID, m.GetMessage().GetAttributes())
	}
	if len(ackIDs) == 0 {
		return nil
	}
	if err := t.skipStored(ctx, byID); err != nil {
		return err
	}
	t.begin(len(byID))
	err = wait(ctx, t.model)
	t.end(len(byID))
	if err != nil {
		return err
	}
	if err := t.upsert(ctx, byID); err != nil {
		return err
	}
	return t.messages.SubscriptionAdminClient.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: subscription, AckIds: ackIDs})
}

// addKey adds the key of the row of a message.
func addKey(byID map[string]spanner.Key, attributes map[string]string) {
	id := attributes["item_id"]
	shard := int64(crc32.Checksum([]byte(id), crc32.MakeTable(crc32.Castagnoli)) % 64)
	byID[id] = spanner.Key{attributes["run_id"], shard, id}
}

func (t textbook) skipStored(ctx context.Context, byID map[string]spanner.Key) error {
	var keys []spanner.Key
	for _, key := range byID {
		keys = append(keys, key)
	}
	return t.rows.Single().Read(ctx, "Results", spanner.KeySetFromKeys(keys...), []string{"ItemId"}).Do(func(row *spanner.Row) error {
		var id string
		err := row.Columns(&id)
		delete(byID, id)
		return err
	})
}

func (t textbook) upsert(ctx context.Context, byID map[string]spanner.Key) error {
	var mutations []*spanner.Mutation
	for _, key := range byID {
		mutations = append(mutations, spanner.InsertOrUpdateMap("Results", map[string]any{
			"RunId": key[0], "Shard": key[1], "ItemId": key[2], "Status": "OK", "Output": string(answer),
			"ModelVersion": "bench", "Worker": "bench", "CommittedAt": spanner.CommitTimestamp,
		}))
	}
	_, err := t.rows.Apply(ctx, mutations, spanner.ApplyAtLeastOnce())
	return err
}
