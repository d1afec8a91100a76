package publish

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// verifyBatch is the number of items that are looked up at once.
const verifyBatch = 500

// Verified is what comparing a dataset with the rows of a run has shown.
type Verified struct {
	Items, OK, Failed, Missing int64
}

// Verify looks up the row of every item of data and calls missing for those
// that have none. A run that does not exist is ErrNoRun.
func Verify(ctx context.Context, runs Runs, results Results, runID string, data Dataset, missing func(dataset.Entry)) (Verified, error) {
	var v Verified
	if _, err := runs.Get(ctx, runID); err != nil {
		return v, err
	}
	batch := make([]dataset.Entry, 0, verifyBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		keys := make([]item.Key, len(batch))
		for i, entry := range batch {
			keys[i] = item.Key{RunID: runID, ItemID: entry.ItemID}
		}
		statuses, err := results.Statuses(ctx, keys)
		if err != nil {
			return err
		}
		for i, key := range keys {
			v.add(statuses[key], batch[i], missing)
		}
		batch = batch[:0]
		return nil
	}
	for entry, err := range data.Survey(ctx) {
		if err != nil {
			return v, err
		}
		entry.Data = nil // a batch of payloads could be large
		if batch = append(batch, entry); len(batch) == verifyBatch {
			if err := flush(); err != nil {
				return v, err
			}
		}
	}
	return v, flush()
}

func (v *Verified) add(status string, entry dataset.Entry, missing func(dataset.Entry)) {
	v.Items++
	switch status {
	case "":
		v.Missing++
		missing(entry)
	case "OK":
		v.OK++
	default:
		v.Failed++
	}
}
