package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// bugs are what can be wrong. Each change puts something faulty between the
// worker and what it works with.
var bugs = map[string]func(*worker.Deps){
	"none":              func(*worker.Deps) {},
	"ack_before_commit": func(d *worker.Deps) { d.Store = &hastyStore{Store: d.Store} },
	"ack_dropped": func(d *worker.Deps) {
		d.Source = instead{d.Source, func(_ context.Context, s worker.Settlement) worker.Settlement {
			if s == worker.Ack {
				return worker.Abandon
			}
			return s
		}}
	},
	"nack_forgotten": func(d *worker.Deps) {
		d.Source = instead{d.Source, func(ctx context.Context, s worker.Settlement) worker.Settlement {
			if s == worker.Nack && ctx.Err() != nil {
				return worker.Abandon
			}
			return s
		}}
	},
	"ack_instead_of_nack": func(d *worker.Deps) {
		d.Source = instead{d.Source, func(context.Context, worker.Settlement) worker.Settlement { return worker.Ack }}
	},
	"failed_over_ok": func(d *worker.Deps) { d.Store = &forgetfulStore{Store: d.Store} },
	"blind":          func(d *worker.Deps) { d.Store = blindStore{d.Store} },
	"drain_fails": func(d *worker.Deps) {
		d.Source = failing{Source: d.Source, store: d.Store}
	},
}

func names() []string { return slices.Sorted(maps.Keys(bugs)) }

// hastyStore says that rows are durable, and writes them a moment later.
type hastyStore struct {
	worker.Store
	writing sync.WaitGroup
}

func (s *hastyStore) Commit(ctx context.Context, results []worker.Result) []error {
	late := context.WithoutCancel(ctx)
	s.writing.Go(func() {
		<-time.After(100 * time.Millisecond)
		s.Store.Commit(late, results)
	})
	return make([]error, len(results))
}

// instead settles otherwise than the worker decided. The context says whether
// the worker has been stopped.
type instead struct {
	worker.Source
	settle func(context.Context, worker.Settlement) worker.Settlement
}

func (s instead) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	return s.Source.Receive(ctx, func(c context.Context, d *worker.Delivery) worker.Settlement {
		return s.settle(ctx, handle(c, d))
	})
}

// blindStore finds nothing stored.
type blindStore struct{ worker.Store }

func (blindStore) Lookup(context.Context, []item.Key) (map[item.Key]worker.Stored, error) {
	return map[item.Key]worker.Stored{}, nil
}

// failing records what a drain gives back as failed, as if it were the items'
// fault.
type failing struct {
	worker.Source
	store worker.Store
}

func (s failing) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	return s.Source.Receive(ctx, func(c context.Context, d *worker.Delivery) worker.Settlement {
		what := handle(c, d)
		if it, err := item.Decode(d.Data, d.Attributes); err == nil && what == worker.Nack && ctx.Err() != nil {
			s.store.Commit(context.WithoutCancel(ctx), []worker.Result{{
				Key: it.Key, Status: worker.StatusFailed, Class: worker.ClassBatchError, Message: "stopped", ModelVersion: "chaos-1",
			}})
		}
		return what
	})
}
