package sink

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/publish"
)

var _ publish.Runs = (*Runs)(nil)

var runColumns = []string{"RunId", "Dataset", "State", "Published", "CreatedAt", "UpdatedAt"}

// Runs keeps the rows of runs. It is safe for concurrent use.
type Runs struct{ db *Database }

// Runs returns the runs of the database.
func (d *Database) Runs() *Runs { return &Runs{db: d} }

// Begin implements publish.Runs.
func (r *Runs) Begin(ctx context.Context, id, dataset string) (run publish.Run, created bool, err error) {
	_, err = r.db.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		found, err := tx.ReadRow(ctx, tableRuns, spanner.Key{id}, runColumns)
		if err == nil {
			created = false
			run, err = decodeRun(found)
			return err
		}
		if !errors.Is(err, spanner.ErrRowNotFound) {
			return err
		}
		now := time.Now().UTC()
		created = true
		run = publish.Run{ID: id, Dataset: dataset, State: publish.StatePublishing, CreatedAt: now, UpdatedAt: now}
		return tx.BufferWrite([]*spanner.Mutation{spanner.Insert(tableRuns, runColumns,
			[]any{id, dataset, string(run.State), run.Published, now, spanner.CommitTimestamp})})
	})
	if err != nil {
		return publish.Run{}, false, r.db.explain("begin run "+id, err)
	}
	return run, created, nil
}

// Update implements publish.Runs.
func (r *Runs) Update(ctx context.Context, id string, state publish.State, published int64) error {
	_, err := r.db.client.Apply(ctx, []*spanner.Mutation{spanner.Update(tableRuns,
		[]string{"RunId", "State", "Published", "UpdatedAt"},
		[]any{id, string(state), published, spanner.CommitTimestamp})}, spanner.ApplyAtLeastOnce())
	if spanner.ErrCode(err) == codes.NotFound {
		// The row, the table or the database.
		if _, getErr := r.Get(ctx, id); errors.Is(getErr, publish.ErrNoRun) {
			return publish.ErrNoRun
		}
	}
	if err != nil {
		return r.db.explain("update run "+id, err)
	}
	return nil
}

// Get implements publish.Runs.
func (r *Runs) Get(ctx context.Context, id string) (publish.Run, error) {
	found, err := r.db.client.Single().ReadRow(ctx, tableRuns, spanner.Key{id}, runColumns)
	if errors.Is(err, spanner.ErrRowNotFound) {
		return publish.Run{}, publish.ErrNoRun
	}
	if err == nil {
		var run publish.Run
		if run, err = decodeRun(found); err == nil {
			return run, nil
		}
	}
	return publish.Run{}, r.db.explain("read run "+id, err)
}

func decodeRun(r *spanner.Row) (publish.Run, error) {
	var run publish.Run
	var dataset spanner.NullString
	var state string
	if err := r.Columns(&run.ID, &dataset, &state, &run.Published, &run.CreatedAt, &run.UpdatedAt); err != nil {
		return publish.Run{}, err
	}
	run.Dataset, run.State = dataset.StringVal, publish.State(state)
	return run, nil
}
