package sink

import (
	"context"

	"cloud.google.com/go/spanner"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ publish.Results = (*Results)(nil)

// countSQL adds up one run. It reads the run's key range once.
const countSQL = `SELECT Status, COUNT(*) AS Items, MIN(CommittedAt) AS FirstAt, MAX(CommittedAt) AS LastAt
FROM Results WHERE RunId = @run GROUP BY Status`

// Results reads the rows of runs. It is safe for concurrent use.
type Results struct{ db *Database }

// Results returns the results of the database.
func (d *Database) Results() *Results { return &Results{db: d} }

// Count implements publish.Results.
func (r *Results) Count(ctx context.Context, runID string) (publish.Counts, error) {
	var counts publish.Counts
	statement := spanner.Statement{SQL: countSQL, Params: map[string]any{"run": runID}}
	err := r.db.client.Single().Query(ctx, statement).Do(func(row *spanner.Row) error {
		var status string
		var items int64
		var first, last spanner.NullTime
		if err := row.Columns(&status, &items, &first, &last); err != nil {
			return err
		}
		if worker.Status(status) == worker.StatusOK {
			counts.OK += items
		} else {
			counts.Failed += items
		}
		if counts.FirstResultAt.IsZero() || first.Time.Before(counts.FirstResultAt) {
			counts.FirstResultAt = first.Time
		}
		if last.Time.After(counts.LastResultAt) {
			counts.LastResultAt = last.Time
		}
		return nil
	})
	if err != nil {
		return publish.Counts{}, r.db.explain("count results of run "+runID, err)
	}
	return counts, nil
}

// Each implements publish.Results.
func (r *Results) Each(ctx context.Context, runID, status string, visit func(publish.Row) error) error {
	columns := []string{"ItemId", "Status", "Output", "ErrorClass", "ErrorMessage", "ModelVersion", "Worker", "CommittedAt"}
	rows := r.db.client.Single().Read(ctx, tableResults, spanner.Key{runID}.AsPrefix(), columns)
	var visitErr error
	err := rows.Do(func(row *spanner.Row) error {
		found, err := decodeResult(row)
		if err != nil || status != "" && found.Status != status {
			return err
		}
		visitErr = visit(found)
		return visitErr
	})
	if visitErr != nil {
		return visitErr
	}
	if err != nil {
		return r.db.explain("read results of run "+runID, err)
	}
	return nil
}

// Statuses implements publish.Results.
func (r *Results) Statuses(ctx context.Context, keys []item.Key) (map[item.Key]string, error) {
	stored, err := r.db.lookup(ctx, keys)
	if err != nil {
		return nil, err
	}
	found := make(map[item.Key]string, len(stored))
	for key, s := range stored {
		found[key] = string(s.Status)
	}
	return found, nil
}

func decodeResult(r *spanner.Row) (publish.Row, error) {
	var row publish.Row
	var output, class, message spanner.NullString
	err := r.Columns(&row.ItemID, &row.Status, &output, &class, &message, &row.ModelVersion, &row.Worker, &row.CommittedAt)
	if err != nil {
		return publish.Row{}, err
	}
	row.Output, row.ErrorClass, row.ErrorMessage = output.StringVal, class.StringVal, message.StringVal
	return row, nil
}
