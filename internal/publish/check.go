package publish

import (
	"context"
	"fmt"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// check reads the whole dataset.
func check(ctx context.Context, data Dataset, progress Progress) (dataset.Report, error) {
	progress.Begin("checking", -1, dataset.Counts{})
	defer progress.End()
	report, err := data.Check(ctx, progress.Show)
	if err == nil {
		err = checkDuplicates(ctx, data)
	}
	return report, err
}

// checkDuplicates returns an error that names the first two items of the same
// ID. It takes about 9 bytes of memory an item.
func checkDuplicates(ctx context.Context, data Dataset) error {
	ids := newIDSet()
	for entry, err := range data.Survey(ctx) {
		if err != nil {
			return err
		}
		if entry.Problem == nil {
			ids.add(entry.ItemID)
		}
	}
	if suspects := ids.suspects(); len(suspects) > 0 {
		return findDuplicate(ctx, data, ids, suspects)
	}
	return nil
}

// findDuplicate reads the dataset once more and names the first two items of
// the same ID, if there are any: hashes may be equal by chance.
func findDuplicate(ctx context.Context, data Dataset, ids *idSet, suspects map[uint64]bool) error {
	seen := make(map[string]dataset.Position)
	for entry, err := range data.Survey(ctx) {
		if err != nil {
			return err
		}
		if !suspects[ids.hash(entry.ItemID)] {
			continue
		}
		if first, twice := seen[entry.ItemID]; twice {
			return fmt.Errorf("%w %q: at %s and at %s; give each item an ID of its own, or name another field with --id-field",
				dataset.ErrDuplicate, entry.ItemID, first, entry.Position)
		}
		seen[entry.ItemID] = entry.Position
	}
	return nil
}
