package dataset

import "context"

// Report is what a Check has found.
type Report struct {
	Counts
	// Sources are the complete identities.
	Sources []Source
	// Problems are the first bad rows and duplicates that were left out, for
	// people; all are in the file Options.Rejects.
	Problems []error
}

// Check reads everything without the payloads of files, and returns the first
// thing that is not allowed: a bad row over Options.MaxBadRows, or the second
// item of an ID. It names both places of a duplicate. Memory does not grow
// with the number of items; show is called now and then.
func (d *Dataset) Check(ctx context.Context, show func(Counts)) (Report, error) {
	var report Report
	for entry, err := range d.Survey(ctx) {
		if err != nil {
			return report, err
		}
		report.Counts = entry.Position.Counts
		if report.Read%1000 == 0 {
			show(report.Counts)
		}
	}
	show(report.Counts)
	report.Sources = d.Sources()
	return report, nil
}
