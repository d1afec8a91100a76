package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spotbatch/spotbatch/internal/item"
)

// MaxPayload is the size of the largest payload in bytes: a Pub/Sub request
// holds 10,000,000 bytes (https://cloud.google.com/pubsub/quotas), of which
// the rest is left to attributes, trace context and framing.
const MaxPayload = 10_000_000 - 4096

// errEmpty says that there is nothing to publish.
var errEmpty = errors.New("dataset has no items")

// Options says how items are made.
type Options struct {
	// IDField is the field or column with the item ID of rows. Empty means id.
	IDField string
}

// Position says where an item stands, for people.
type Position struct {
	// File is a path, or a gs:// address.
	File string
	// Line is the line on which the row begins, from 1; 0 when the item is the
	// whole file.
	Line int
}

// String returns file:line, or the file alone.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Entry is an item, its RunID empty, and where it came from.
type Entry struct {
	item.Item
	Position Position
}

// Entries is a sequence that ends after its first error.
type Entries = iter.Seq2[Entry, error]

// source is one argument of the user.
type source interface {
	// entries reads the source from its start. Without payload the Data of an
	// item that is a whole file may be left out, so that it need not be read.
	entries(ctx context.Context, payload bool) Entries
}

// Dataset is all sources of a run, in the order in which they were given. It
// can be read any number of times, and must be closed.
type Dataset struct {
	name    string
	sources []source
	bucket  *bucketClient
}

// Open finds the sources: paths, or gs:// addresses. It reads no items.
func Open(ctx context.Context, sources []string, opts Options) (*Dataset, error) {
	if len(sources) == 0 {
		return nil, errors.New("open dataset: no SOURCE; give files, a directory or gs://bucket/prefix")
	}
	if opts.IDField == "" {
		opts.IDField = "id"
	}
	d := &Dataset{bucket: &bucketClient{}}
	names := make([]string, len(sources))
	for i, arg := range sources {
		var src source
		var err error
		if strings.HasPrefix(arg, bucketScheme) {
			names[i] = arg
			src, err = openBucket(ctx, d.bucket, arg, opts)
		} else {
			names[i] = absolute(arg)
			src, err = openLocal(arg, opts)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open dataset: %w", err), d.Close())
		}
		d.sources = append(d.sources, src)
	}
	d.name = strings.Join(names, " ")
	return d, nil
}

// Name identifies the dataset: its sources, local ones as absolute paths.
func (d *Dataset) Name() string { return d.name }

// Close ends the connection to the bucket, if there is one.
func (d *Dataset) Close() error { return d.bucket.close() }

// Items reads all items. A dataset without any ends with an error.
func (d *Dataset) Items(ctx context.Context) Entries { return d.read(ctx, true) }

// Survey reads all items as Items does, without the Data of those that are
// whole files, which it finds without opening them.
func (d *Dataset) Survey(ctx context.Context) Entries { return d.read(ctx, false) }

func (d *Dataset) read(ctx context.Context, payload bool) Entries {
	return func(yield func(Entry, error) bool) {
		count := 0
		for _, src := range d.sources {
			for entry, err := range src.entries(ctx, payload) {
				if err == nil {
					err = check(entry)
				}
				if err == nil {
					err = context.Cause(ctx)
				}
				if !yield(entry, err) || err != nil {
					return
				}
				count++
			}
		}
		if count == 0 {
			yield(Entry{}, fmt.Errorf("%s: %w; give a SOURCE that has some", d.name, errEmpty))
		}
	}
}

// check holds for every kind of source.
func check(e Entry) error {
	if err := item.CheckItemID(e.ItemID); err != nil {
		return fmt.Errorf("%s: %w", e.Position, err)
	}
	if len(e.Data) > MaxPayload {
		return tooLarge(e.Position, int64(len(e.Data)))
	}
	return nil
}

func tooLarge(at Position, size int64) error {
	return fmt.Errorf("%s: the item has %d bytes; a message carries at most %d", at, size, MaxPayload)
}

// absolute returns the path that stays the same wherever the same command is
// given again.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
