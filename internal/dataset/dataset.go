package dataset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotbatch/spotbatch/internal/item"
)

const (
	// maxRequest is the size of the largest Pub/Sub request in bytes
	// (https://cloud.google.com/pubsub/quotas), and so of a message.
	maxRequest = 10_000_000
	// reserved are the bytes of a request that are no payload and no item ID:
	// the topic's name (at most 300), the run's ID (64), content type and trace
	// context (about 100 each), the attributes' names and the framing.
	reserved = 768
)

// payloadLimit is the size of the largest payload that a message with this ID
// carries.
func payloadLimit(id string) int64 { return maxRequest - reserved - int64(len(id)) }

// errEmpty says that there is nothing to publish.
var errEmpty = errors.New("dataset has no items")

// source is one file of rows, or one set of files.
type source interface {
	// entries reads the source from its start, or what stands after the
	// position, which is one of this source. Without payload the Data of an
	// item that is a whole file may be left out, so that it need not be read.
	// After a *BadRow reading goes on; any other error is the last.
	entries(ctx context.Context, after Position, payload bool) Entries
	// identity is what is known without reading everything.
	identity() Source
}

// Dataset is all sources of a run, in the order in which they were given. It
// can be read any number of times, by one goroutine at a time, and must be
// closed.
type Dataset struct {
	name    string
	opts    Options
	sources []source
	bucket  *bucketClient
	temp    *tempFiles
	// spill is nil without Options.Spill.
	spill *spiller
	// identities are those of sources, completed by Check.
	identities []Source
	// skip holds the duplicates that Check has found and that are left out, in
	// their order.
	skip []duplicate
}

// Open finds the sources: paths, or gs:// addresses. It reads no items.
func Open(ctx context.Context, sources []string, opts Options) (*Dataset, error) {
	if len(sources) == 0 {
		return nil, errors.New("open dataset: no SOURCE; give files, a directory or gs://bucket/prefix")
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	d := &Dataset{opts: opts, bucket: &bucketClient{}, temp: &tempFiles{}}
	if opts.Spill != "" {
		d.spill = &spiller{bucket: d.bucket, address: opts.Spill}
	}
	names := make([]string, len(sources))
	for i, arg := range sources {
		name, found, err := d.openSource(ctx, arg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open dataset: %w", err), d.Close())
		}
		names[i] = name
		for _, src := range found {
			d.sources = append(d.sources, src)
			d.identities = append(d.identities, src.identity())
		}
	}
	if err := d.uniqueNames(); err != nil {
		return nil, errors.Join(fmt.Errorf("open dataset: %w", err), d.Close())
	}
	d.name = strings.Join(names, " ")
	return d, nil
}

// Name identifies the dataset: its sources, local ones as absolute paths.
func (d *Dataset) Name() string { return d.name }

// Sources returns the identity of each source; that of a set of files is
// complete after Check.
func (d *Dataset) Sources() []Source { return slices.Clone(d.identities) }

// Close ends the connection to the bucket, if there is one, and removes
// temporary files.
func (d *Dataset) Close() error {
	d.temp.close()
	return d.bucket.close()
}

// Items reads all items. A dataset without any ends with an error.
func (d *Dataset) Items(ctx context.Context) Entries { return d.read(ctx, Position{}, true) }

// ItemsAfter reads the items after the one at the position, which must be of
// the same dataset, unchanged. The positions of its entries count on from
// there. Skipping duplicates needs a Check before.
func (d *Dataset) ItemsAfter(ctx context.Context, after Position) Entries {
	return d.read(ctx, after, true)
}

// Survey reads all items as Items does, without the Data of those that are
// whole files, which it finds without opening them.
func (d *Dataset) Survey(ctx context.Context) Entries { return d.read(ctx, Position{}, false) }

func (d *Dataset) read(ctx context.Context, after Position, payload bool) Entries {
	return func(yield func(Entry, error) bool) {
		counts := after.Counts
		for i := after.Source; i < len(d.sources); i++ {
			from := Position{Source: i}
			if i == after.Source {
				from = after
			}
			for entry, err := range d.sources[i].entries(ctx, from, payload) {
				if err == nil {
					err = d.check(ctx, &entry, payload)
				}
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				entry.Position.Source = i
				err = d.count(&counts, &entry, err)
				entry.Position.Counts = counts
				if !yield(entry, err) || err != nil {
					return
				}
			}
		}
		if counts.Read == 0 {
			yield(Entry{}, fmt.Errorf("%s: %w; give a SOURCE that has some", d.name, errEmpty))
		}
	}
}

// count counts one entry, and returns the error that ends the reading.
func (d *Dataset) count(counts *Counts, entry *Entry, err error) error {
	bad, isBad := errors.AsType[*BadRow](err)
	if err != nil && !isBad {
		return err
	}
	counts.Read++
	switch {
	case isBad:
		counts.Rejected++
		if d.opts.MaxBadRows >= 0 && counts.Rejected > d.opts.MaxBadRows {
			return d.tooMany(bad)
		}
		entry.Problem = bad
	case d.isSkipped(counts.Read):
		counts.Skipped++
		entry.Problem = fmt.Errorf("%w %q", ErrDuplicate, entry.ItemID)
	default:
		counts.Items++
		counts.Bytes += int64(len(entry.Data))
	}
	return nil
}

// tooMany says what the limit was when it was not 0.
func (d *Dataset) tooMany(bad *BadRow) error {
	if d.opts.MaxBadRows == 0 {
		return bad
	}
	return fmt.Errorf("more than %d bad rows (--max-bad-rows), the last: %w", d.opts.MaxBadRows, bad)
}

func (d *Dataset) isSkipped(number int64) bool {
	_, found := d.skipped(number)
	return found
}

// skipped returns the index in d.skip of the entry with this number.
func (d *Dataset) skipped(number int64) (int, bool) {
	return slices.BinarySearchFunc(d.skip, number, func(dup duplicate, n int64) int { return int(dup.number - n) })
}

// check holds for every kind of source. A payload that is too large goes where
// the user says.
func (d *Dataset) check(ctx context.Context, e *Entry, payload bool) error {
	if err := item.CheckItemID(e.ItemID); err != nil {
		return &BadRow{At: e.Position, Err: err, Raw: e.Data}
	}
	size, limit := int64(len(e.Data)), payloadLimit(e.ItemID)
	switch {
	case size <= limit:
		return nil
	case d.spill == nil:
		return tooLarge(e.Position, size, limit)
	case !payload:
		e.Data = nil // as it will be
		return nil
	}
	if err := d.spill.row(ctx, &e.Item); err != nil {
		return fmt.Errorf("%s: %w", e.Position, err)
	}
	return nil
}

func tooLarge(at Position, size, limit int64) error {
	return &BadRow{At: at, Err: fmt.Errorf("the item has %d bytes; a message carries at most %d; keep large items in a bucket with --spill gs://bucket/prefix", size, limit)}
}

// absolute returns the path that stays the same wherever the same command is
// given again.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
