package publish

// Progress shows a person how far a pass over the dataset is. Begin and End
// are called once for each pass, in turn, and Show by one goroutine at a time
// between them.
type Progress interface {
	// Begin starts a pass over total items; -1 when that is not known.
	Begin(what string, total int64)
	// Show says how many items and payload bytes are done by now. It returns
	// soon.
	Show(items, bytes int64)
	// End ends the pass.
	End()
}
