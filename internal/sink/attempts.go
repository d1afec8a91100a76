package sink

import (
	"context"

	"cloud.google.com/go/spanner"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ worker.Attempts = (*Attempts)(nil)

// Attempts keeps the starts of suspected items. It is safe for concurrent use.
type Attempts struct{ db *Database }

// Attempts returns the worker's view of the table.
func (d *Database) Attempts() *Attempts { return &Attempts{db: d} }

var attemptColumns = []string{"RunId", "Shard", "ItemId", "Started", "LastWorker", "LastError", "UpdatedAt"}

// Read implements worker.Attempts with one strong read.
func (a *Attempts) Read(ctx context.Context, keys []item.Key) (map[item.Key]worker.Attempt, error) {
	found := make(map[item.Key]worker.Attempt)
	if len(keys) == 0 {
		return found, nil
	}
	rows := a.db.client.Single().Read(ctx, tableAttempts, keySet(keys), []string{"RunId", "ItemId", "Started", "LastWorker", "LastError"})
	err := rows.Do(func(r *spanner.Row) error {
		var key item.Key
		var started int64
		var by, last spanner.NullString
		if err := r.Columns(&key.RunID, &key.ItemID, &started, &by, &last); err != nil {
			return err
		}
		found[key] = worker.Attempt{Key: key, Started: int(started), Worker: by.StringVal, Error: last.StringVal}
		return nil
	})
	if err != nil {
		return nil, worker.Fail(worker.ClassStore, a.db.explain("read attempts", err))
	}
	return found, nil
}

// Record implements worker.Attempts with one blind commit.
func (a *Attempts) Record(ctx context.Context, attempts []worker.Attempt) error {
	list := make([]*spanner.Mutation, len(attempts))
	for i, attempt := range attempts {
		list[i] = attemptMutation(attempt)
	}
	if _, err := a.db.client.Apply(ctx, list, spanner.ApplyAtLeastOnce()); err != nil {
		return worker.Fail(worker.ClassStore, a.db.explain("record attempts", err))
	}
	return nil
}

// TakeBack implements worker.Attempts in one transaction, since another worker
// may have the items by now.
func (a *Attempts) TakeBack(ctx context.Context, name string, kept []worker.Attempt, gone []item.Key) error {
	keys := append(make([]item.Key, 0, len(kept)+len(gone)), gone...)
	for _, k := range kept {
		keys = append(keys, k.Key)
	}
	_, err := a.db.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		others := make(map[item.Key]bool)
		err := tx.Read(ctx, tableAttempts, keySet(keys), []string{"RunId", "ItemId", "LastWorker"}).Do(func(r *spanner.Row) error {
			var key item.Key
			var by spanner.NullString
			if err := r.Columns(&key.RunID, &key.ItemID, &by); err != nil {
				return err
			}
			others[key] = by.StringVal != clip(name, maxWorkerChars)
			return nil
		})
		if err != nil {
			return err
		}
		var list []*spanner.Mutation
		for _, attempt := range kept {
			if !others[attempt.Key] {
				list = append(list, attemptMutation(attempt))
			}
		}
		for _, key := range gone {
			if !others[key] {
				list = append(list, attemptEnd(key))
			}
		}
		return tx.BufferWrite(list)
	})
	if err != nil {
		return worker.Fail(worker.ClassStore, a.db.explain("take back attempts", err))
	}
	return nil
}

func attemptMutation(a worker.Attempt) *spanner.Mutation {
	last := spanner.NullString{StringVal: clip(a.Error, maxMessageChars), Valid: a.Error != ""}
	return spanner.InsertOrUpdate(tableAttempts, attemptColumns, []any{
		a.Key.RunID, shardOf(a.Key.ItemID), a.Key.ItemID, int64(a.Started), clip(a.Worker, maxWorkerChars), last, spanner.CommitTimestamp,
	})
}

// attemptEnd removes a record, if there is one.
func attemptEnd(key item.Key) *spanner.Mutation {
	return spanner.Delete(tableAttempts, keyOf(key))
}
