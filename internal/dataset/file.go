package dataset

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spotbatch/spotbatch/internal/item"
)

// file is a file or object that can be opened again and again.
type file struct {
	// name is for people.
	name string
	// id is the path below the directory, with slashes.
	id   string
	size int64
	open func(ctx context.Context) (io.ReadCloser, error)
}

// reader reads the rows of one file; name is for errors.
type reader func(name string, r io.Reader, opts Options) Entries

// readerFor picks the reader by the name's extension.
func readerFor(name string) (reader, error) {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".jsonl", ".ndjson", ".json":
		return readJSONL, nil
	case ".csv":
		return readCSV, nil
	default:
		return nil, fmt.Errorf("%s: unknown format %q; give .jsonl, .ndjson, .json (one object a line) or .csv, or the directory to publish its files", name, ext)
	}
}

// rows is a source with an item a row.
type rows struct {
	file file
	read reader
	opts Options
}

func (s rows) identity() Source { return Source{Name: s.file.name, Size: s.file.size} }

func (s rows) entries(ctx context.Context, after Position, _ bool) Entries {
	return func(yield func(Entry, error) bool) {
		r, err := s.file.open(ctx)
		if err != nil {
			yield(Entry{}, fmt.Errorf("open %s: %w", s.file.name, err))
			return
		}
		// Closing a file that was only read cannot lose anything.
		defer func() { _ = r.Close() }()
		var row int64
		for e, err := range s.read(s.file.name, r, s.opts) {
			if row++; row <= after.Row && err == nil {
				continue
			}
			e.Position.Row = row
			if !yield(e, err) {
				return
			}
		}
	}
}

// files is a source with an item a file.
type files struct {
	// list calls visit for each file, in a fixed order, until it says false.
	list func(ctx context.Context, visit func(file, error) bool)
}

func (s files) identity() Source { return Source{} }

func (s files) entries(ctx context.Context, after Position, payload bool) Entries {
	return func(yield func(Entry, error) bool) {
		skipping := after.File != ""
		s.list(ctx, func(f file, err error) bool {
			if err != nil {
				return yield(Entry{}, err)
			}
			if skipping {
				skipping = f.name != after.File
				return true
			}
			return yield(f.entry(ctx, payload))
		})
	}
}

func (f file) entry(ctx context.Context, payload bool) (Entry, error) {
	e := Entry{Item: item.Item{Key: item.Key{ItemID: f.id}}, Position: Position{File: f.name}}
	if f.size > MaxPayload {
		return e, tooLarge(e.Position, f.size)
	}
	if !payload {
		return e, nil
	}
	r, err := f.open(ctx)
	if err != nil {
		return e, fmt.Errorf("open %s: %w", f.name, err)
	}
	defer func() { _ = r.Close() }()
	// The file may have grown since it was listed.
	if e.Data, err = io.ReadAll(io.LimitReader(r, MaxPayload+1)); err != nil {
		return e, fmt.Errorf("read %s: %w", f.name, err)
	}
	e.ContentType = contentType(f.id, e.Data)
	return e, nil
}

// hidden tells whether a part of the path begins with a dot.
func hidden(id string) bool {
	return strings.HasPrefix(id, ".") || strings.Contains(id, "/.")
}
