package sink

import (
	"context"
	"fmt"

	"cloud.google.com/go/spanner"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ worker.Store = (*Store)(nil)

// Store keeps a worker's results. It is safe for concurrent use.
type Store struct {
	db *Database
	// overwrite writes OK rows, keepOK the FAILED ones.
	overwrite, keepOK applyFunc
}

// Store returns the worker's view of the database, which stays open until the
// Database is closed.
func (d *Database) Store() *Store {
	return &Store{db: d, overwrite: d.upsert, keepOK: d.upsertUnlessOK}
}

// Lookup implements worker.Store with one strong read.
func (s *Store) Lookup(ctx context.Context, keys []item.Key) (map[item.Key]worker.Stored, error) {
	found, err := s.db.lookup(ctx, keys)
	return found, worker.Fail(worker.ClassStore, err)
}

func (d *Database) lookup(ctx context.Context, keys []item.Key) (map[item.Key]worker.Stored, error) {
	found := make(map[item.Key]worker.Stored, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	rows := d.client.Single().Read(ctx, tableResults, keySet(keys), []string{"RunId", "ItemId", "Status", "ModelVersion"})
	err := rows.Do(func(r *spanner.Row) error {
		var key item.Key
		var status, version string
		if err := r.Columns(&key.RunID, &key.ItemID, &status, &version); err != nil {
			return err
		}
		found[key] = worker.Stored{Status: worker.Status(status), ModelVersion: version}
		return nil
	})
	if err != nil {
		return nil, d.explain("look up results", err)
	}
	return found, nil
}

// Commit implements worker.Store. It tries for as long as ctx lasts.
func (s *Store) Commit(ctx context.Context, results []worker.Result) []error {
	errs := make([]error, len(results))
	var ok, failed []row
	for i, result := range results {
		r := row{index: i, result: result}
		switch err := r.check(); {
		case err != nil:
			errs[i] = fmt.Errorf("%w: %w", worker.ErrRejected, err)
		case result.Status == worker.StatusOK:
			ok = append(ok, r)
		default:
			failed = append(failed, r)
		}
	}
	s.overwrite.write(ctx, ok, errs)
	s.keepOK.write(ctx, failed, errs)
	return errs
}

// upsert writes rows over whatever is there.
func (d *Database) upsert(ctx context.Context, rows []row) error {
	_, err := d.client.Apply(ctx, mutations(rows, func(row) bool { return true }), spanner.ApplyAtLeastOnce())
	return err
}

// upsertUnlessOK writes the rows of items that have no OK row. The function
// may run several times: the client repeats it when the transaction aborts.
func (d *Database) upsertUnlessOK(ctx context.Context, rows []row) error {
	keys := make([]item.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.result.Key
	}
	_, err := d.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		stored := make(map[item.Key]bool)
		err := tx.Read(ctx, tableResults, keySet(keys), []string{"RunId", "ItemId", "Status"}).Do(func(r *spanner.Row) error {
			var key item.Key
			var status string
			if err := r.Columns(&key.RunID, &key.ItemID, &status); err != nil {
				return err
			}
			stored[key] = worker.Status(status) == worker.StatusOK
			return nil
		})
		if err != nil {
			return err
		}
		return tx.BufferWrite(mutations(rows, func(r row) bool { return !stored[r.result.Key] }))
	})
	return err
}

// mutations writes the wanted rows, and ends the records in Attempts of all.
func mutations(rows []row, wanted func(row) bool) []*spanner.Mutation {
	list := make([]*spanner.Mutation, 0, len(rows))
	for _, r := range rows {
		if wanted(r) {
			list = append(list, r.mutation())
		}
		if r.result.Attempted {
			list = append(list, attemptEnd(r.result.Key))
		}
	}
	return list
}

func keySet(keys []item.Key) spanner.KeySet {
	list := make([]spanner.Key, len(keys))
	for i, k := range keys {
		list[i] = keyOf(k)
	}
	return spanner.KeySetFromKeys(list...)
}
