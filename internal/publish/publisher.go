package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// Dataset is what is published. It is read by one goroutine at a time, any
// number of times, and gives the same entries in the same order for as long as
// nobody changes it.
type Dataset interface {
	// Name identifies the dataset, whatever it holds.
	Name() string
	// Sources returns the identity of each source; that of a set of files is
	// complete after Check.
	Sources() []dataset.Source
	// Check reads everything and returns the first thing that is not allowed.
	Check(ctx context.Context, show func(dataset.Counts)) (dataset.Report, error)
	// ItemsAfter reads what stands after a position that it has given before;
	// the zero position is the start. An error is the last thing it yields.
	ItemsAfter(ctx context.Context, after dataset.Position) dataset.Entries
	// Survey is ItemsAfter the start, without the payloads that it need not
	// read to check everything else.
	Survey(ctx context.Context) dataset.Entries
}

var _ Dataset = (*dataset.Dataset)(nil)

// Config bounds a publisher.
type Config struct {
	// Window is the number of messages that the topic lets be unconfirmed.
	Window int
	// Rate is the number of items a second; 0 means any.
	Rate float64
}

// Publisher publishes datasets to one topic.
type Publisher struct {
	cfg      Config
	topic    Topic
	runs     Runs
	progress Progress
	log      *slog.Logger
	limit    *rate.Limiter

	items, bytes metric.Int64Counter
}

// New returns a publisher.
func New(ctx context.Context, cfg Config, topic Topic, runs Runs, progress Progress, meters metric.MeterProvider, log *slog.Logger) (*Publisher, error) {
	meter := meters.Meter("github.com/spotbatch/spotbatch/internal/publish")
	items, err := meter.Int64Counter("spotbatch.published", metric.WithUnit("{item}"),
		metric.WithDescription("Items that Pub/Sub has confirmed."))
	if err != nil {
		return nil, fmt.Errorf("create counter: %w", err)
	}
	bytes, err := meter.Int64Counter("spotbatch.publish.bytes", metric.WithUnit("By"),
		metric.WithDescription("Payload bytes that Pub/Sub has confirmed."))
	if err != nil {
		return nil, fmt.Errorf("create counter: %w", err)
	}
	items.Add(ctx, 0)
	bytes.Add(ctx, 0)
	limit := rate.NewLimiter(rate.Inf, 0)
	if cfg.Rate > 0 {
		// A tenth of a second's worth at once costs fewer waits.
		limit = rate.NewLimiter(rate.Limit(cfg.Rate), max(1, int(cfg.Rate/10)))
	}
	return &Publisher{cfg: cfg, topic: topic, runs: runs, progress: progress, log: log, limit: limit, items: items, bytes: bytes}, nil
}

// Summary is what a publish has done.
type Summary struct {
	// Total is what the dataset holds: Total.Items are published.
	Total dataset.Counts
	// Before is what earlier publishes of the run had confirmed.
	Before dataset.Counts
	// Took is the time of publishing, without checking.
	Took time.Duration
	// Problems are the first entries that were left out.
	Problems []error
}

// Stopped says that a publish was stopped by its context, and not by a fault.
// What was confirmed is counted and kept.
type Stopped struct {
	// Published of Total items are confirmed by now; Total is 0 when the
	// dataset was not checked to its end.
	Published, Total int64
	// Again says that Published counts items that are published again.
	Again bool
	// Cause is the cause of the context.
	Cause error
}

// Error says how to go on.
func (s *Stopped) Error() string {
	if s.Again {
		return fmt.Sprintf("%d items are published again; give the same command again to go on: %v", s.Published, s.Cause)
	}
	if s.Total == 0 {
		return fmt.Sprintf("nothing is published yet; give the same command again to begin: %v", s.Cause)
	}
	return fmt.Sprintf("%d of %d items are published; give the same command again to go on: %v", s.Published, s.Total, s.Cause)
}

// Unwrap returns the cause.
func (s *Stopped) Unwrap() error { return s.Cause }

// Run publishes data as the run runID; shape is the options that decide what
// its items are. An earlier publish that did not come to its end is gone on
// with, as far as state knows how far it was, and begun anew where it does
// not. A dataset that has changed since is refused. When state knows that all
// of it is published there is nothing to do, and Took is zero.
//
// After an error, or when ctx is done, everything that was sent and can still
// be confirmed has been counted, and the same call goes on with it. A stop is
// a *Stopped, and takes at most ten seconds.
func (p *Publisher) Run(ctx context.Context, runID string, data Dataset, shape string, state Checkpoint) (Summary, error) {
	var summary Summary
	if err := item.CheckRunID(runID); err != nil {
		return summary, err
	}
	run, err := p.runs.Get(ctx, runID)
	if err != nil && !errors.Is(err, ErrNoRun) {
		return summary, err
	}
	if run.ID != "" && run.Dataset != data.Name() {
		return summary, fmt.Errorf("run %s was begun with another dataset (%s); give that one, or name another run with --run", run.ID, run.Dataset)
	}
	saved, found, err := p.load(ctx, run, data, shape, state)
	if err != nil {
		return summary, err
	}
	if err := mayPublish(run, found); err != nil {
		return summary, err
	}
	if !found || saved.needsCheck() {
		report, err := check(ctx, data, p.progress)
		if err != nil {
			return summary, p.stopped(ctx, err)
		}
		if found && saved.Total.Items != report.Items {
			return summary, changed(run, fmt.Sprintf("it had %d items and has %d now", saved.Total.Items, report.Items))
		}
		if err := refuse(run, found, saved.differs(shape, report.Sources)); err != nil {
			return summary, err
		}
		summary.Problems = report.Problems
		saved.Total, saved.Sources = report.Counts, report.Sources
	}
	if run.State == StatePublished {
		return Summary{Total: saved.Total, Before: saved.Total}, nil
	}
	if run, err = p.begin(ctx, runID, data, found, saved.After.Counts); err != nil {
		return summary, p.stopped(ctx, err)
	}
	saved.RunID, saved.CreatedAt, saved.Shape = runID, run.CreatedAt, shape
	summary.Total, summary.Before = saved.Total, saved.After.Counts
	start := time.Now()
	err = newPass(p, run, saved, state).do(ctx, data)
	summary.Took = time.Since(start)
	return summary, err
}

// load returns what state knows of run, which has no ID when there is none.
func (p *Publisher) load(ctx context.Context, run Run, data Dataset, shape string, state Checkpoint) (saved snapshot, found bool, err error) {
	if found, err = state.Load(ctx, &saved); err != nil {
		return snapshot{}, false, err
	}
	if !found || run.ID != saved.RunID || !run.CreatedAt.Equal(saved.CreatedAt) {
		// Of an earlier run of this name, which was purged.
		return snapshot{}, false, nil
	}
	if saved.needsCheck() {
		return saved, true, nil
	}
	return saved, true, refuse(run, true, saved.differs(shape, data.Sources()))
}

func refuse(run Run, found bool, difference string) error {
	if !found || difference == "" {
		return nil
	}
	return changed(run, difference)
}

func changed(run Run, difference string) error {
	return fmt.Errorf("run %s was begun with a dataset that has changed since: %s; give what it was begun with, or publish this as another run with --run", run.ID, difference)
}

// begin makes the run's row, or takes up the one that is there.
func (p *Publisher) begin(ctx context.Context, runID string, data Dataset, resumed bool, before dataset.Counts) (Run, error) {
	run, created, err := p.runs.Begin(ctx, runID, data.Name())
	if err != nil {
		return run, err
	}
	switch {
	case resumed:
		p.log.Info("going on with an interrupted publish", "run_id", runID, "published_before", before.Items)
	case !created:
		p.log.Info("run was not published to its end, and how far it was is not known here; publishing it from the start",
			"run_id", runID, "published_before", run.Published)
	}
	return run, mayPublish(run, false)
}

// stopped turns the error of a call into a stop, if ctx was the reason.
func (p *Publisher) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
		return &Stopped{Cause: context.Cause(ctx)}
	}
	return err
}

// mayPublish says whether a publish may go on with run, which has no ID when
// there is none. A run that is published is nothing to fail about if it is
// known to be this very publish: it was killed when all was done but to say so,
// or somebody has typed the same line twice.
func mayPublish(run Run, known bool) error {
	if run.ID == "" || run.State == StatePublishing || run.State == StatePublished && known {
		return nil
	}
	return fmt.Errorf("run %s is %s already, with %d items; name another run with --run", run.ID, run.State, run.Published)
}
