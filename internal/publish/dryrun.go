package publish

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// progressStep is the number of items after which progress is shown anew.
const progressStep = 1000

// DryRun reads all of data as a publish would, payloads with it, and returns
// what it holds. The first few messages go to show.
func DryRun(ctx context.Context, runID string, data Dataset, progress Progress, first int, show func(item.Item)) (dataset.Report, error) {
	report, err := check(ctx, data, progress)
	if err != nil {
		return report, err
	}
	progress.Begin("reading", report.Read, dataset.Counts{})
	defer progress.End()
	for entry, err := range data.ItemsAfter(ctx, dataset.Position{}) {
		if err != nil {
			return report, err
		}
		if counts := entry.Position.Counts; counts.Read%progressStep == 0 {
			progress.Show(counts)
		}
		report.Counts = entry.Position.Counts
		if entry.Problem == nil && first > 0 {
			first--
			entry.RunID = runID
			show(entry.Item)
		}
	}
	progress.Show(report.Counts)
	return report, nil
}
