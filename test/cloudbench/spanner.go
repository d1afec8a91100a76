package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"golang.org/x/sync/errgroup"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
)

const (
	writers     = 64
	commits     = 20_000
	rows        = 1_000_000
	rowsACommit = 2000

	databaseName = "projects/bench/instances/bench/databases/bench"
)

func (b *bench) spanner(ctx context.Context) error {
	cloud, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer cloud.Close()
	if err := createDatabase(ctx); err != nil {
		return err
	}
	client, err := spanner.NewClient(ctx, databaseName)
	if err != nil {
		return err
	}
	defer client.Close()

	before, err := resident(cloud)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := inParallel(ctx, rows/rowsACommit, func(ctx context.Context, i int) error {
		mutations := make([]*spanner.Mutation, rowsACommit)
		for j := range mutations {
			mutations[j] = result(i*rowsACommit + j)
		}
		_, err := client.Apply(ctx, mutations, spanner.ApplyAtLeastOnce())
		return err
	}); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "Spanner: %d rows in %.0f s\n", rows, time.Since(begin).Seconds())
	after, err := resident(cloud)
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("Spanner: memory of %d rows", rows), (after-before)/1e9, 1.5, "GB")

	for k, kind := range []struct {
		name    string
		options []spanner.ApplyOption
	}{{"read-write", nil}, {"at-least-once", []spanner.ApplyOption{spanner.ApplyAtLeastOnce()}}} {
		begin := time.Now()
		if err := inParallel(ctx, commits, func(ctx context.Context, i int) error {
			_, err := client.Apply(ctx, []*spanner.Mutation{result(rows + k*commits + i)}, kind.options...)
			return err
		}); err != nil {
			return err
		}
		what := fmt.Sprintf("Spanner: single-row commits, %s, %d writers, %d rows", kind.name, writers, rows)
		b.atLeast(what, commits/time.Since(begin).Seconds(), 2000, "commits/s")
	}
	return nil
}

// inParallel calls do for 0 to n-1 in as many goroutines as there are writers.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range writers {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(ctx, int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// result is a row as a worker writes it.
func result(i int) *spanner.Mutation {
	return spanner.InsertOrUpdate("Results",
		[]string{"RunId", "Shard", "ItemId", "Status", "Output", "ModelVersion", "Worker", "InferMillis", "CommittedAt"},
		[]any{
			"bench", int64(i % 64), fmt.Sprintf("item-%07d", i), "OK", `{"label":7,"score":0.987}`,
			"sha256:0123456789abcdef", "worker-0", 1.5, spanner.CommitTimestamp,
		})
}

func createDatabase(ctx context.Context) error {
	instances, err := instance.NewInstanceAdminClient(ctx)
	if err != nil {
		return err
	}
	defer instances.Close() //nolint:errcheck // it has served its purpose
	made, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: "projects/bench", InstanceId: "bench",
		Instance: &instancepb.Instance{Config: "projects/bench/instanceConfigs/local", DisplayName: "bench", NodeCount: 1},
	})
	if err != nil {
		return err
	}
	if _, err := made.Wait(ctx); err != nil {
		return err
	}
	databases, err := database.NewDatabaseAdminClient(ctx)
	if err != nil {
		return err
	}
	defer databases.Close() //nolint:errcheck // likewise
	created, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: "projects/bench/instances/bench", CreateStatement: "CREATE DATABASE bench", ExtraStatements: spannerschema.Statements(),
	})
	if err != nil {
		return err
	}
	_, err = created.Wait(ctx)
	return err
}
