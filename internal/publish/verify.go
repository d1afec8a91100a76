package publish

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// Verified is what comparing a dataset with the rows of a run has shown.
type Verified struct {
	// Items = OK + Failed + Missing.
	Items, OK, Failed, Missing int64
	// Unknown counts rows of the run whose items are in no source.
	Unknown int64
}

// Findings are told what Verify finds, one after the other.
type Findings interface {
	// Missing is called for items without a row.
	Missing(entry dataset.Entry)
	// Failed is called for items whose row is FAILED.
	Failed(entry dataset.Entry)
	// Unknown is called for rows of no item.
	Unknown(row Row)
}

// Verify looks up the row of every item of data, and then, if there are more
// rows than those, the item of every row. For that it reads the dataset once
// more and takes about 9 bytes of memory an item; else it takes none. A run
// that does not exist is ErrNoRun.
func Verify(ctx context.Context, runs Runs, results Results, runID string, data Dataset, findings Findings) (Verified, error) {
	var v Verified
	if _, err := runs.Get(ctx, runID); err != nil {
		return v, err
	}
	err := lookUp(ctx, runID, withoutData(data.Survey(ctx)), lookupItems, results.Statuses, func(entry dataset.Entry, status string, found bool) error {
		v.Items++
		switch {
		case !found:
			v.Missing++
			findings.Missing(entry)
		case status == "OK":
			v.OK++
		default:
			v.Failed++
			findings.Failed(entry)
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	counts, err := results.Count(ctx, runID)
	if err != nil || counts.OK+counts.Failed <= v.OK+v.Failed {
		return v, err
	}
	// Workers may have stored the missing ones meanwhile: only a look at every
	// row tells.
	v.Unknown, err = unknown(ctx, results, runID, data, findings)
	return v, err
}

// unknown finds the rows whose items are not in data. Two IDs of one hash could
// hide a row; among a billion items that is less likely than one in ten.
func unknown(ctx context.Context, results Results, runID string, data Dataset, findings Findings) (count int64, err error) {
	ids := newIDSet()
	for entry, err := range data.Survey(ctx) {
		if err != nil {
			return 0, err
		}
		if entry.Problem == nil {
			ids.add(entry.ItemID)
		}
	}
	ids.sort()
	err = results.Each(ctx, runID, "", func(row Row) error {
		if !ids.has(row.ItemID) {
			count++
			findings.Unknown(row)
		}
		return nil
	})
	return count, err
}
