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

// Verify looks up the row of every item of data, and then the item of every
// row if there are more rows than those. It takes about 9 bytes of memory an
// item. A run that does not exist is ErrNoRun.
func Verify(ctx context.Context, runs Runs, results Results, runID string, data Dataset, findings Findings) (Verified, error) {
	var v Verified
	if _, err := runs.Get(ctx, runID); err != nil {
		return v, err
	}
	ids := newIDSet()
	err := lookUp(ctx, runID, withoutData(data.Survey(ctx)), lookupItems, results.Statuses, func(entry dataset.Entry, status string, found bool) error {
		ids.add(entry.ItemID)
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
	// row tells. Two IDs of one hash could hide a row; with a billion items
	// that is less likely than one in ten.
	ids.sort()
	err = results.Each(ctx, runID, "", func(row Row) error {
		if !ids.has(row.ItemID) {
			v.Unknown++
			findings.Unknown(row)
		}
		return nil
	})
	return v, err
}
