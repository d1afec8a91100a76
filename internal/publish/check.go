package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// ErrDuplicate says that two items of a dataset have the same ID.
var ErrDuplicate = errors.New("duplicate item_id")

// Dataset is what is published. Both methods may be called any number of times
// and give the same items in the same order, as long as nobody changes them.
type Dataset interface {
	// Name identifies the dataset.
	Name() string
	// Items reads the items; an error is the last thing it yields.
	Items(ctx context.Context) dataset.Entries
	// Survey is Items without the payloads that it need not read to check
	// everything else.
	Survey(ctx context.Context) dataset.Entries
}

var _ Dataset = (*dataset.Dataset)(nil)

// Check reads the whole dataset and returns its number of items, or the first
// thing that is wrong with it. It takes about 9 bytes of memory an item.
func Check(ctx context.Context, data Dataset, progress Progress) (int64, error) {
	ids := newIDSet()
	var count int64
	progress.Begin("checking", -1)
	defer progress.End()
	for entry, err := range data.Survey(ctx) {
		if err != nil {
			return 0, err
		}
		ids.add(entry.ItemID)
		if count++; count%progressStep == 0 {
			progress.Show(count, 0)
		}
	}
	progress.Show(count, 0)
	if suspects := ids.suspects(); len(suspects) > 0 {
		return count, findDuplicate(ctx, data, ids, suspects)
	}
	return count, nil
}

// progressStep is the number of items after which progress is shown anew.
const progressStep = 1000

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
				ErrDuplicate, entry.ItemID, first, entry.Position)
		}
		seen[entry.ItemID] = entry.Position
	}
	return nil
}
