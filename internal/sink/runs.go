package sink

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/spanner"

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
	_, err := r.change(ctx, id, func(run publish.Run) (publish.Run, error) {
		switch {
		case run.State == publish.StateCancelled:
			return run, publish.ErrCancelled
		case run.State == publish.StatePublished && state == publish.StatePublishing:
			return run, publish.ErrPublished
		}
		run.State, run.Published = state, max(run.Published, published)
		return run, nil
	})
	return r.explain("update run "+id, err)
}

// Cancel sets the state of a run to CANCELLED and returns it as it was before,
// or publish.ErrNoRun.
func (r *Runs) Cancel(ctx context.Context, id string) (publish.Run, error) {
	before, err := r.change(ctx, id, func(run publish.Run) (publish.Run, error) {
		run.State = publish.StateCancelled
		return run, nil
	})
	return before, r.explain("cancel run "+id, err)
}

// change reads a run, writes state and published count of what update makes of
// it, and returns what was there before. update may be called several times.
func (r *Runs) change(ctx context.Context, id string, update func(publish.Run) (publish.Run, error)) (publish.Run, error) {
	var before publish.Run
	_, err := r.db.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		found, err := tx.ReadRow(ctx, tableRuns, spanner.Key{id}, runColumns)
		if errors.Is(err, spanner.ErrRowNotFound) {
			return publish.ErrNoRun
		}
		if err != nil {
			return err
		}
		if before, err = decodeRun(found); err != nil {
			return err
		}
		after, err := update(before)
		if err != nil {
			return err
		}
		return tx.BufferWrite([]*spanner.Mutation{spanner.Update(tableRuns,
			[]string{"RunId", "State", "Published", "UpdatedAt"},
			[]any{id, string(after.State), after.Published, spanner.CommitTimestamp})})
	})
	return before, err
}

// explain leaves alone what callers test for.
func (r *Runs) explain(action string, err error) error {
	for _, plain := range []error{publish.ErrNoRun, publish.ErrCancelled, publish.ErrPublished} {
		if errors.Is(err, plain) {
			return plain
		}
	}
	if err != nil {
		return r.db.explain(action, err)
	}
	return nil
}

// List calls visit for each run, the one begun last first, and stops at
// visit's error, which it returns as it is.
func (r *Runs) List(ctx context.Context, visit func(publish.Run) error) error {
	statement := spanner.Statement{SQL: "SELECT RunId, Dataset, State, Published, CreatedAt, UpdatedAt FROM Runs ORDER BY CreatedAt DESC, RunId"}
	var visitErr error
	err := r.db.client.Single().Query(ctx, statement).Do(func(row *spanner.Row) error {
		run, err := decodeRun(row)
		if err != nil {
			return err
		}
		visitErr = visit(run)
		return visitErr
	})
	if visitErr != nil {
		return visitErr
	}
	return r.explain("list runs", err)
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
