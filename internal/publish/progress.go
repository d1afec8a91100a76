package publish

import "github.com/spotbatch/spotbatch/internal/dataset"

// Progress shows a person how far a pass over the dataset is. Begin and End
// are called once for each pass, in turn, and Show by one goroutine at a time
// between them.
type Progress interface {
	// Begin starts a pass over total entries, of which some are done already;
	// a total of -1 is not known.
	Begin(what string, total int64, done dataset.Counts)
	// Show says what is done by now, with what was done at the beginning. It
	// returns soon.
	Show(done dataset.Counts)
	// End ends the pass.
	End()
}
