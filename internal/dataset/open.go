package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// openSource finds what one argument names: a file may be a source, and a
// pattern many.
func (d *Dataset) openSource(ctx context.Context, arg string) (name string, found []source, err error) {
	switch {
	case arg == "-":
		found, err = d.openStdin(ctx)
		return arg, found, err
	case strings.HasPrefix(arg, bucketScheme):
		found, err = d.openBucket(ctx, arg)
		return arg, found, err
	}
	found, err = d.openLocal(ctx, arg)
	return absolute(arg), found, err
}

func (d *Dataset) filter(glob string) pathFilter {
	return pathFilter{glob: glob, include: d.opts.Include, exclude: d.opts.Exclude}
}

// openFile opens one file of this machine.
func (d *Dataset) openFile(f file) ([]source, error) {
	if d.opts.Format == FormatObjects {
		one := listing{name: absolute(f.name), list: func(_ context.Context, _ pathFilter, _ string, visit func(file, error) bool) {
			visit(f, nil)
		}}
		return d.openSet(one)
	}
	var err error
	if f.source, err = identify(f); err != nil {
		return nil, err
	}
	return []source{rowSource{file: f, opts: d.opts, temp: d.temp}}, nil
}

// openListing opens a directory, prefix or pattern. Its files are items, or
// full of rows when the user says so, or by the end of the pattern.
func (d *Dataset) openListing(ctx context.Context, l listing) ([]source, error) {
	if d.opts.Format == FormatObjects || d.opts.Format == FormatAuto && formatOfName(path.Base(l.filter.glob)) == "" {
		return d.openSet(l)
	}
	found, err := l.files(ctx)
	if err != nil {
		return nil, err
	}
	var sources []source
	for _, f := range found {
		if f.uri == "" {
			if f.source, err = identify(f); err != nil {
				return nil, err
			}
		}
		sources = append(sources, rowSource{file: f, opts: d.opts, temp: d.temp})
	}
	return sources, nil
}

func (d *Dataset) openSet(l listing) ([]source, error) {
	switch {
	case d.opts.ID == IDField, d.opts.ID == IDRow:
		return nil, fmt.Errorf("--id %s is for rows, and each file of %s is an item; give --id path or --id hash, or say with --format that the files hold rows", d.opts.ID, l.name)
	case len(d.opts.Columns) > 0:
		return nil, fmt.Errorf("--columns is for rows, and each file of %s is an item; say with --format that the files hold rows", l.name)
	}
	return []source{fileSet{listing: l, opts: d.opts, spill: d.spill, known: &Source{Name: l.name}}}, nil
}

// openStdin keeps standard input in a temporary file: it is read twice, once to
// check it and once to publish it.
func (d *Dataset) openStdin(ctx context.Context) ([]source, error) {
	switch {
	case d.opts.Stdin == nil:
		return nil, errors.New("- is standard input, which there is none of")
	case d.opts.Format == FormatObjects:
		return nil, errors.New("standard input holds rows, not objects; say with --format which")
	}
	f, identity, err := spool(ctx, d.temp, d.opts.Stdin)
	if err != nil {
		return nil, err
	}
	d.opts.Stdin = nil // there is nothing left in it
	return []source{rowSource{opts: d.opts, temp: d.temp, file: file{
		name: "-", id: "stdin", size: identity.Size, source: identity,
		open: func(_ context.Context, offset int64) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(f, offset, identity.Size-offset)), nil
		},
	}}}, nil
}

// uniqueNames checks that row numbers make IDs that differ between files.
func (d *Dataset) uniqueNames() error {
	seen := map[string]string{}
	for _, s := range d.sources {
		rows, is := s.(rowSource)
		if !is || d.opts.ID != IDRow && d.opts.ID != IDAuto {
			continue
		}
		if first, twice := seen[rows.file.id]; twice && (d.opts.ID == IDRow || formatOfName(rows.file.name) == FormatLines) {
			return fmt.Errorf("%s and %s are both called %s, so that their rows would have the same IDs (%s:1 and so on); give a pattern over both such as 'dir/*/%s', or --id hash",
				first, rows.file.name, rows.file.id, rows.file.id, path.Base(rows.file.id))
		}
		seen[rows.file.id] = rows.file.name
	}
	return nil
}
