package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const firedRun = "under-fire"

// killed publishes many rows and kills the publisher on its way. What stands
// for the workers stores a result for each message. In the end every item has
// its result, and the run counts each item once.
func (b *bench) killed(ctx context.Context) error {
	return b.with(ctx, func(s *site) error {
		file := filepath.Join(s.dir, "rows.jsonl")
		if err := writeRows(file, s.rows, 100); err != nil {
			return err
		}
		db, err := sink.Open(ctx, database, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer db.Close()
		workers := &workers{store: db.Store()}
		workCtx, stopWorking := context.WithCancel(ctx)
		defer stopWorking()
		var working errgroup.Group
		working.Go(func() error { return workers.run(workCtx) })

		start := time.Now()
		memory, err := s.publishUnderFire(ctx, db, file)
		if err != nil {
			return err
		}
		published := time.Since(start)
		if err := s.awaitResults(ctx, db); err != nil {
			return err
		}
		stored := time.Since(start)
		stopWorking()
		if err := working.Wait(); err != nil {
			return err
		}
		verify := s.publisher(ctx, "verify", "--run", firedRun, file)
		begun := time.Now()
		out, err := verify.CombinedOutput()
		if err != nil {
			return fmt.Errorf("verify: %w: %s", err, out)
		}
		fmt.Fprintf(s.out, "%d rows of 100 bytes, the publisher killed %d times: published in %s, all results stored after %s\n",
			s.rows, s.kills, published.Round(time.Second), stored.Round(time.Second))
		fmt.Fprintf(s.out, "%d messages for %d items; peak memory of the publisher %d MB\n", workers.messages.Load(), s.rows, memory)
		fmt.Fprintf(s.out, "verify: %s, in %s, peak memory %d MB\n", bytes.TrimSpace(out), time.Since(begun).Round(time.Second), peak(verify))
		return nil
	})
}

// publishUnderFire kills the publisher when about a part of the rows has been
// published, and starts it again, and returns the most memory of any of them.
func (s *site) publishUnderFire(ctx context.Context, db *sink.Database, file string) (memory int64, err error) {
	for kill := range s.kills + 1 {
		cmd := s.publisher(ctx, "publish", "--run", firedRun, file)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		shot := false
		if kill < s.kills {
			if err := s.awaitPublished(ctx, db, s.rows*int64(kill+1)/int64(s.kills+1)); err != nil {
				return 0, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
			}
			shot = true
			if err := cmd.Process.Kill(); err != nil {
				return 0, fmt.Errorf("kill the publisher: %w: %s", err, out.String())
			}
		}
		err := cmd.Wait()
		memory = max(memory, peak(cmd))
		if !shot && err != nil {
			return 0, fmt.Errorf("publish: %w: %s", err, out.String())
		}
		run, err := db.Runs().Get(ctx, firedRun)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(s.out, "publisher %d: %s with %d published after %s, peak memory %d MB\n",
			kill+1, run.State, run.Published, time.Since(begun).Round(100*time.Millisecond), peak(cmd))
		if !shot && run.Published != s.rows {
			return 0, fmt.Errorf("the run counts %d items of %d", run.Published, s.rows)
		}
	}
	return memory, nil
}

// awaitPublished waits until the run's row says so many items.
func (s *site) awaitPublished(ctx context.Context, db *sink.Database, items int64) error {
	return poll(ctx, func() (bool, error) {
		run, err := db.Runs().Get(ctx, firedRun)
		// Before the first publisher has begun there is no run.
		return err == nil && run.Published >= items, nil
	})
}

// awaitResults waits until every item has its result.
func (s *site) awaitResults(ctx context.Context, db *sink.Database) error {
	return poll(ctx, func() (bool, error) {
		counts, err := db.Results().Count(ctx, firedRun)
		return counts.OK >= s.rows, err
	})
}

// poll asks until done says so, or a quarter of an hour is over.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for pause := 100 * time.Millisecond; ; {
		begun := time.Now()
		is, err := done()
		if is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(pause, 3*time.Since(begun))):
		}
	}
}

// workers stand for the workers: they store a row a message, many in a commit.
type workers struct {
	store    *sink.Store
	messages atomic.Int64
}

const (
	workerBatch   = 1000
	workerCommits = 4
)

func (w *workers) run(ctx context.Context) error {
	client, err := pubsub.NewClient(ctx, project)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // everything is acked
	arrived := make(chan *pubsub.Message, workerBatch)
	var storing errgroup.Group
	for range workerCommits {
		storing.Go(func() error { w.storeAll(context.WithoutCancel(ctx), arrived); return nil })
	}
	subscriber := client.Subscriber("items-workers")
	subscriber.ReceiveSettings.MaxOutstandingMessages = 2 * workerBatch * workerCommits
	subscriber.ReceiveSettings.NumGoroutines = 1
	err = subscriber.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		select {
		case arrived <- m:
		case <-ctx.Done():
			m.Nack()
		}
	})
	close(arrived)
	return errors.Join(err, storing.Wait())
}

// storeAll stores and acks what arrives, as much at once as has gathered.
func (w *workers) storeAll(ctx context.Context, arrived <-chan *pubsub.Message) {
	for first := range arrived {
		batch := []*pubsub.Message{first}
		for len(batch) < workerBatch && len(arrived) > 0 {
			if m, is := <-arrived; is {
				batch = append(batch, m)
			}
		}
		results := make([]worker.Result, len(batch))
		for i, m := range batch {
			results[i] = worker.Result{
				Key:    item.Key{RunID: m.Attributes["run_id"], ItemID: m.Attributes["item_id"]},
				Status: worker.StatusOK, Output: []byte("1"), ModelVersion: "none", Worker: "bench",
			}
		}
		for i, err := range w.store.Commit(ctx, results) {
			w.messages.Add(1)
			if err != nil {
				batch[i].Nack()
				continue
			}
			batch[i].Ack()
		}
	}
}
