package sink

import (
	"cmp"
	"context"
	"slices"

	"cloud.google.com/go/spanner"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ publish.Results = (*Results)(nil)

// countSQL adds up one run. It reads the run's key range once.
const countSQL = `SELECT Status, ErrorClass, COUNT(*) AS Items, MIN(ItemId) AS Example, MIN(CommittedAt) AS FirstAt, MAX(CommittedAt) AS LastAt
FROM Results WHERE RunId = @run GROUP BY Status, ErrorClass`

// resultFields are the columns of publish.Row.
var resultFields = []string{"ItemId", "Status", "Output", "ErrorClass", "ErrorMessage", "ModelVersion", "Worker", "CommittedAt"}

// statusSQL reads the rows of one status in one shard of a run.
const statusSQL = `SELECT ItemId, Status, Output, ErrorClass, ErrorMessage, ModelVersion, Worker, CommittedAt
FROM Results WHERE RunId = @run AND Shard = @shard AND Status = @status ORDER BY ItemId`

// Results reads the rows of runs. It is safe for concurrent use.
type Results struct{ db *Database }

// Results returns the results of the database.
func (d *Database) Results() *Results { return &Results{db: d} }

// Count implements publish.Results.
func (r *Results) Count(ctx context.Context, runID string) (publish.Counts, error) {
	var counts publish.Counts
	statement := spanner.Statement{SQL: countSQL, Params: map[string]any{"run": runID}}
	err := r.db.client.Single().Query(ctx, statement).Do(func(row *spanner.Row) error {
		var status, example string
		var class spanner.NullString
		var items int64
		var first, last spanner.NullTime
		if err := row.Columns(&status, &class, &items, &example, &first, &last); err != nil {
			return err
		}
		if worker.Status(status) == worker.StatusOK {
			counts.OK += items
		} else {
			counts.Failed += items
			counts.Failures = append(counts.Failures, publish.Failure{Class: class.StringVal, Items: items, Example: example})
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
	slices.SortFunc(counts.Failures, func(a, b publish.Failure) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Class, b.Class))
	})
	return counts, nil
}

// Each implements publish.Results. A read is one shard long: Spanner keeps no
// version of a row for longer than an hour, and a large run takes that long to
// be printed.
func (r *Results) Each(ctx context.Context, runID, status string, visit func(publish.Row) error) error {
	for shard := range int64(shards) {
		if err := r.eachOf(ctx, runID, shard, status, visit); err != nil {
			return err
		}
	}
	return nil
}

func (r *Results) eachOf(ctx context.Context, runID string, shard int64, status string, visit func(publish.Row) error) error {
	var rows *spanner.RowIterator
	if status == "" {
		rows = r.db.client.Single().Read(ctx, tableResults, spanner.Key{runID, shard}.AsPrefix(), resultFields)
	} else {
		rows = r.db.client.Single().Query(ctx, spanner.Statement{
			SQL: statusSQL, Params: map[string]any{"run": runID, "shard": shard, "status": status},
		})
	}
	var visitErr error
	err := rows.Do(func(row *spanner.Row) error {
		found, err := decodeResult(row)
		if err != nil {
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

// Rows implements publish.Results.
func (r *Results) Rows(ctx context.Context, keys []item.Key) (map[item.Key]publish.Row, error) {
	found := make(map[item.Key]publish.Row, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	rows := r.db.client.Single().Read(ctx, tableResults, keySet(keys), append([]string{"RunId"}, resultFields...))
	err := rows.Do(func(row *spanner.Row) error {
		var runID string
		if err := row.Column(0, &runID); err != nil {
			return err
		}
		result, err := decodeResult(row)
		found[item.Key{RunID: runID, ItemID: result.ItemID}] = result
		return err
	})
	if err != nil {
		return nil, r.db.explain("read results", err)
	}
	return found, nil
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

// decodeResult reads the last columns of a row, which are resultFields.
func decodeResult(r *spanner.Row) (publish.Row, error) {
	var row publish.Row
	var output, class, message spanner.NullString
	fields := []any{&row.ItemID, &row.Status, &output, &class, &message, &row.ModelVersion, &row.Worker, &row.CommittedAt}
	for i, field := range fields {
		if err := r.Column(r.Size()-len(fields)+i, field); err != nil {
			return publish.Row{}, err
		}
	}
	row.Output, row.ErrorClass, row.ErrorMessage = output.StringVal, class.StringVal, message.StringVal
	return row, nil
}
