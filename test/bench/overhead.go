package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// overheadOutstanding is pull.max_outstanding on both sides; it is what the
// official client has by default.
const overheadOutstanding = 1000

// overhead compares the CPU time of a worker whose model costs nothing with
// that of the bare official client, on the same messages.
func (b *bench) overhead(ctx context.Context) error {
	sides := []struct {
		name string
		role string
		args jobArgs
	}{
		{"bare", roleBare, jobArgs{}},
		{"bare-store", roleBareStore, jobArgs{}},
		{"no-store", roleWorker, jobArgs{noStore: true}},
		{"worker", roleWorker, jobArgs{}},
	}
	cost := make([][]time.Duration, len(sides))
	for round := range b.size.overheadRounds {
		for i, side := range sides {
			if b.profiles != "" && round == 0 {
				side.args.profile = filepath.Join(b.profiles, side.name+".pprof")
			}
			perItem, err := b.cpuPerItem(ctx, side.role, side.args)
			if err != nil {
				return err
			}
			cost[i] = append(cost[i], perItem)
		}
	}
	middle := func(i int) time.Duration {
		slices.Sort(cost[i])
		return cost[i][len(cost[i])/2]
	}
	bare, bareStore, noStore, whole := middle(0), middle(1), middle(2), middle(3)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	note := fmt.Sprintf("delayed, pull.max_outstanding %d, the middle of %d rounds", overheadOutstanding, b.size.overheadRounds)
	b.add(line{What: "CPU time an item, bare official client", Value: micros(bare), Unit: "us", Note: note})
	b.add(line{What: "CPU time an item, bare official clients that read and write rows", Value: micros(bareStore), Unit: "us", Note: note})
	b.add(line{What: "CPU time an item, worker without store calls", Value: micros(noStore), Unit: "us", Note: note})
	b.add(line{What: "CPU time an item, worker", Value: micros(whole), Unit: "us", Note: note})
	b.atMost(2.5, line{What: "overhead without store calls", Value: float64(noStore) / float64(bare), Unit: "times", Note: "a store that is there at once"})
	b.add(line{
		What: "worker, of the bare official clients that read and write rows", Value: float64(whole) / float64(bareStore), Unit: "times",
		Note: "the same calls on both sides",
	})
	b.atMost(2.5, line{What: "overhead", Value: float64(whole) / float64(bare), Unit: "times", Note: "the bare client reads and writes no rows"})
	return nil
}

// cpuPerItem is the CPU time that one process uses for an item, once it is
// warm.
func (b *bench) cpuPerItem(ctx context.Context, role string, args jobArgs) (perItem time.Duration, err error) {
	err = b.with(ctx, true, func(s *site) error {
		q, err := s.queue(ctx, "items")
		if err != nil {
			return err
		}
		warm := b.size.overheadItems / 4
		args.marks = []int{warm, warm + b.size.overheadItems}
		if err := q.publish(ctx, warm+b.size.overheadItems+2*overheadOutstanding); err != nil {
			return err
		}
		crew := q.hire(ctx)
		defer crew.dismiss()
		process, err := crew.add(role, args, outstandingEnv(overheadOutstanding)...)
		if err != nil {
			return err
		}
		var marks []event
		for len(marks) < 2 {
			n, err := crew.next()
			if err != nil {
				return err
			}
			if n.Kind == used {
				marks = append(marks, n.event)
			}
		}
		perItem = (marks[1].CPU - marks[0].CPU) / time.Duration(marks[1].Items-marks[0].Items)
		process.stop(syscall.SIGTERM)
		for process.running() { // for its profile
			if _, err := crew.next(); err != nil {
				return err
			}
		}
		return process.err
	})
	return perItem, err
}
