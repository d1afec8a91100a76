package publish

import (
	"context"
	"time"
)

// Status is where a run stands: published = ok + failed + outstanding.
type Status struct {
	RunID       string `json:"run_id"`
	State       State  `json:"state"`
	Published   int64  `json:"published"`
	OK          int64  `json:"ok"`
	Failed      int64  `json:"failed"`
	Outstanding int64  `json:"outstanding"`
	// Complete says that everything is published and has its result.
	Complete  bool      `json:"complete"`
	StartedAt time.Time `json:"started_at"`
	// LastResultAt is nil while there is no result.
	LastResultAt *time.Time `json:"last_result_at"`
	// ItemsPerSecond is the mean from the first to the last result; 0 while
	// there are not two of different times.
	ItemsPerSecond float64 `json:"items_per_second"`
	// ETASeconds is how long the outstanding items take at that rate; nil when
	// there is none.
	ETASeconds *float64 `json:"eta_seconds"`
	// Failures are the failed items by class. They are for people, and not in
	// the document, whose fields others rely on.
	Failures []Failure `json:"-"`
}

// ReadStatus returns the status of a run, or ErrNoRun.
func ReadStatus(ctx context.Context, runs Runs, results Results, runID string) (Status, error) {
	// In this order: results that arrive in between make the run look more
	// done than published, never complete before it is.
	run, err := runs.Get(ctx, runID)
	if err != nil {
		return Status{}, err
	}
	counts, err := results.Count(ctx, runID)
	if err != nil {
		return Status{}, err
	}
	return newStatus(run, counts), nil
}

func newStatus(run Run, counts Counts) Status {
	done := counts.OK + counts.Failed
	s := Status{
		RunID: run.ID, State: run.State, Published: run.Published,
		OK: counts.OK, Failed: counts.Failed,
		Complete:  run.State == StatePublished && done >= run.Published,
		StartedAt: run.CreatedAt,
		Failures:  counts.Failures,
	}
	if run.State != StatePublished {
		// The row is updated every two seconds; an item that has a result was
		// published, whatever the row says.
		s.Published = max(s.Published, done)
	}
	s.Outstanding = max(0, s.Published-done)
	if !counts.LastResultAt.IsZero() {
		s.LastResultAt = &counts.LastResultAt
	}
	if took := counts.LastResultAt.Sub(counts.FirstResultAt).Seconds(); took > 0 {
		s.ItemsPerSecond = float64(done) / took
		eta := float64(s.Outstanding) / s.ItemsPerSecond
		s.ETASeconds = &eta
	}
	return s
}
