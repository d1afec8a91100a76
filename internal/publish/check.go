package publish

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// check reads the whole dataset.
func check(ctx context.Context, data Dataset, progress Progress) (dataset.Report, error) {
	progress.Begin("checking", -1, dataset.Counts{})
	defer progress.End()
	return data.Check(ctx, progress.Show)
}
