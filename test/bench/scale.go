package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// scale compares runs of different sizes with a model that costs nothing: how
// fast they are, and what memory the worker has on its way.
func (b *bench) scale(ctx context.Context) error {
	var rates []float64
	var flat []float64
	for _, s := range b.size.scales {
		var best float64
		var memory []float64
		var idle float64
		for range s.rounds {
			rate, resident, free, err := b.scaleOnce(ctx, s.items)
			if err != nil {
				return err
			}
			if rate > best {
				best, memory, idle = rate, resident, free
			}
		}
		rates = append(rates, best)
		flat = memory
		b.add(line{
			What: fmt.Sprintf("%d items, 1 worker, model of no cost", s.items), Value: best, Unit: "items/s",
			Note: fmt.Sprintf("not delayed, defaults, best of %d; worker's memory at 10/50/100%%: %s MB; CPUs %.0f%% idle", s.rounds, megabytes(memory), idle),
		})
	}
	spread := 100 * (1 - slices.Min(rates)/slices.Max(rates))
	b.atMost(10, line{What: "throughput: the slowest size below the fastest", Value: spread, Unit: "%"})
	b.atMost(20, line{
		What: "memory: growth from 10% to 100% of the largest run", Value: 100 * (slices.Max(flat)/flat[0] - 1), Unit: "%",
		Note: "the highest of 50% and 100%; \"flat\" is taken as at most 20%",
	})
	return nil
}

// scaleOnce runs items through one worker and returns the items a second
// between 10 % and 100 % of them, and the worker's memory in bytes at 10, 50
// and 100 %.
func (b *bench) scaleOnce(ctx context.Context, items int) (rate float64, memory []float64, free float64, err error) {
	err = b.with(ctx, false, func(s *site) error {
		q, err := s.queue(ctx, "items")
		if err != nil {
			return err
		}
		if err := q.publish(ctx, items); err != nil {
			return err
		}
		crew := q.hire(ctx)
		defer crew.dismiss()
		before := readIdle()
		var tenths []int
		for tenth := range 10 {
			tenths = append(tenths, items*(tenth+1)/10)
		}
		if _, err := crew.add(roleWorker, jobArgs{marks: tenths}); err != nil {
			return err
		}
		var marks []event
		for len(marks) < len(tenths) {
			n, err := crew.next()
			if err != nil {
				return err
			}
			if n.Kind == used {
				marks = append(marks, n.event)
			}
		}
		free = readIdle().since(before)
		for _, tenth := range []int{1, 5, 10} {
			memory = append(memory, float64(marks[tenth-1].Resident))
		}
		first, last := marks[0], marks[len(marks)-1]
		rate = float64(last.Items-first.Items) / (float64(last.At-first.At) / 1e9)
		return nil
	})
	return rate, memory, free, err
}

func megabytes(bytes []float64) string {
	texts := make([]string, len(bytes))
	for i, b := range bytes {
		texts[i] = fmt.Sprintf("%.0f", b/1e6)
	}
	return strings.Join(texts, "/")
}
