package publish

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// How entries are looked up: so many in one read, or so many bytes of them,
// and so many reads in flight.
const (
	lookupItems = 500
	// lookupRows is lookupItems for whole rows, whose outputs may be large.
	lookupRows  = 100
	lookupBytes = 4 << 20
	lookupReads = 8
)

// lookedUp is some entries with what is stored of them.
type lookedUp[T any] struct {
	entries []dataset.Entry
	keys    []item.Key
	found   map[item.Key]T
	err     error
	// done is closed when found or err is set.
	done chan struct{}
}

// lookUp reads entries, looks them up, size of them in a read, and calls
// visit for each in the order of the entries, with what was found. It returns
// the first error, visit's as it is.
func lookUp[T any](ctx context.Context, runID string, entries dataset.Entries, size int,
	read func(context.Context, []item.Key) (map[item.Key]T, error),
	visit func(entry dataset.Entry, stored T, found bool) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	// The room in the channel is what bounds the reads, and the memory.
	ordered := make(chan *lookedUp[T], lookupReads-1)
	group.Go(func() error {
		defer close(ordered)
		return batches(entries, size, func(batch []dataset.Entry) error {
			part := &lookedUp[T]{entries: batch, done: make(chan struct{})}
			for _, entry := range batch {
				part.keys = append(part.keys, item.Key{RunID: runID, ItemID: entry.ItemID})
			}
			select {
			case ordered <- part:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			group.Go(func() error {
				defer close(part.done)
				part.found, part.err = read(ctx, part.keys)
				return nil
			})
			return nil
		})
	})
	group.Go(func() error {
		for part := range ordered {
			<-part.done
			if part.err != nil {
				return part.err
			}
			for i, entry := range part.entries {
				stored, found := part.found[part.keys[i]]
				if err := visit(entry, stored, found); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// batches passes on the items among entries, several at once.
func batches(entries dataset.Entries, size int, pass func([]dataset.Entry) error) error {
	var batch []dataset.Entry
	bytes := 0
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if entry.Problem != nil {
			continue
		}
		batch = append(batch, entry)
		if bytes += len(entry.Data); len(batch) == size || bytes >= lookupBytes {
			if err := pass(batch); err != nil {
				return err
			}
			batch, bytes = nil, 0
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return pass(batch)
}

// withoutData drops payloads, which nobody needs to know what became of items.
func withoutData(entries dataset.Entries) dataset.Entries {
	return func(yield func(dataset.Entry, error) bool) {
		for entry, err := range entries {
			entry.Data = nil
			if !yield(entry, err) {
				return
			}
		}
	}
}
