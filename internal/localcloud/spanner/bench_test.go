package spanner_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	gcp "cloud.google.com/go/spanner"
	"golang.org/x/sync/errgroup"
)

const writers = 64

// BenchmarkSingleRowCommits has 64 writers commit one new row after the other with the official client, into a
// table that is empty and into one that holds many rows already.
func BenchmarkSingleRowCommits(b *testing.B) {
	for _, before := range []int{0, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", before), func(b *testing.B) {
			bed := setup(b)
			perRow := fill(b, bed, before)
			b.ResetTimer()
			var next atomic.Int64
			var group errgroup.Group
			for range writers {
				group.Go(func() error {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return nil
						}
						row := result{RunId: "bench", Shard: i % 64, ItemId: fmt.Sprintf("new-%d", i), Status: "OK"}
						if _, err := bed.client.Apply(b.Context(), []*gcp.Mutation{row.mutation()}, gcp.ApplyAtLeastOnce()); err != nil {
							return err
						}
					}
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			if before > 0 {
				b.ReportMetric(perRow, "B/row")
				b.ReportMetric(perRow*float64(before)/1e6, "MB")
			}
		})
	}
}

// fill commits rows in large batches and returns the bytes of memory that one of them takes.
func fill(b *testing.B, bed *bundle, n int) float64 {
	b.Helper()
	const batch = 5000
	before := heap()
	for start := 0; start < n; start += batch {
		mutations := make([]*gcp.Mutation, 0, batch)
		for i := start; i < min(n, start+batch); i++ {
			mutations = append(mutations, result{RunId: "bench", Shard: int64(i % 64), ItemId: fmt.Sprintf("item-%09d", i), Status: "OK"}.mutation())
		}
		if _, err := bed.client.Apply(b.Context(), mutations, gcp.ApplyAtLeastOnce()); err != nil {
			b.Fatal(err)
		}
	}
	return (heap() - before) / float64(max(n, 1))
}

func heap() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
