package sink

import (
	"context"

	"cloud.google.com/go/spanner"
	"golang.org/x/sync/errgroup"
)

const (
	// purgeRows is the number of rows that one commit removes. A range of keys
	// counts as one mutation, whatever it holds; what is bounded is how long
	// the commit takes and how long it locks.
	purgeRows = 1000
	// purgeCommits is the number of commits in flight.
	purgeCommits = 8
)

// Purge cancels a run and removes its rows: first attempts and results, in
// many commits, and the run itself last, so that a purge that was stopped is
// gone on with by the same call. report is told how many rows are removed so
// far, by one goroutine at a time. A run that does not exist is
// publish.ErrNoRun.
func (r *Runs) Purge(ctx context.Context, id string, report func(rows int64)) error {
	if _, err := r.Cancel(ctx, id); err != nil {
		return err
	}
	removed := make(chan int)
	var reporter errgroup.Group
	reporter.Go(func() error {
		var sum int64
		for rows := range removed {
			sum += int64(rows)
			report(sum)
		}
		return nil
	})
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(purgeCommits)
	for _, table := range []string{tableAttempts, tableResults} {
		for shard := range int64(shards) {
			work.Go(func() error {
				return r.db.purge(workCtx, table, id, shard, removed)
			})
		}
	}
	err := work.Wait()
	close(removed)
	_ = reporter.Wait()
	if err == nil {
		_, err = r.db.client.Apply(ctx, []*spanner.Mutation{spanner.Delete(tableRuns, spanner.Key{id})}, spanner.ApplyAtLeastOnce())
	}
	return r.explain("purge run "+id, err)
}

// purge removes the rows of one shard of a run. Each page begins behind the
// one before: the service is slow to step over rows that were just removed.
func (d *Database) purge(ctx context.Context, table, runID string, shard int64, removed chan<- int) error {
	rest := spanner.KeyRange{Start: spanner.Key{runID, shard}, End: spanner.Key{runID, shard}, Kind: spanner.ClosedClosed}
	for {
		var page []string
		read := d.client.Single().ReadWithOptions(ctx, table, rest, []string{"ItemId"}, &spanner.ReadOptions{Limit: purgeRows})
		err := read.Do(func(row *spanner.Row) error {
			var id string
			err := row.Columns(&id)
			page = append(page, id)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		last := spanner.Key{runID, shard, page[len(page)-1]}
		_, err = d.client.Apply(ctx, []*spanner.Mutation{spanner.Delete(table, spanner.KeyRange{
			Start: spanner.Key{runID, shard, page[0]}, End: last, Kind: spanner.ClosedClosed,
		})}, spanner.ApplyAtLeastOnce())
		if err != nil {
			return err
		}
		removed <- len(page)
		rest.Start, rest.Kind = last, spanner.OpenClosed
	}
}
