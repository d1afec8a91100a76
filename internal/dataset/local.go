package dataset

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// openLocal finds the sources of a path or pattern.
func (d *Dataset) openLocal(ctx context.Context, path string) ([]source, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !isGlob(path) {
			return nil, fmt.Errorf("%s does not exist; give an existing file, a directory or gs://bucket/prefix", path)
		}
		root, pattern := splitGlob(filepath.ToSlash(path))
		return d.openListing(ctx, localListing(absolute(path), filepath.Clean(root), d.filter(pattern)))
	}
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return d.openListing(ctx, localListing(absolute(path), path, d.filter("")))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a directory, and a dataset is read more than once; read it as standard input: publisher publish - < %s", path, path)
	}
	return d.openFile(localFile(path, filepath.Base(path), info))
}

func localListing(name, root string, filter pathFilter) listing {
	return listing{name: name, filter: filter, list: func(ctx context.Context, filter pathFilter, _ string, visit func(file, error) bool) {
		walkLocal(ctx, root, filter, visit)
	}}
}

func localFile(path, id string, info fs.FileInfo) file {
	return file{name: path, id: id, size: info.Size(), version: info.ModTime().UnixNano(), open: func(_ context.Context, offset int64) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, withoutPath(err)
		}
		now, err := f.Stat()
		if err == nil && (now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
			err = errors.New("the file was changed since it was looked at first; publish files that nobody writes to")
		}
		if err == nil && offset > 0 {
			_, err = f.Seek(offset, io.SeekStart)
		}
		if err != nil {
			return nil, errors.Join(withoutPath(err), f.Close())
		}
		return &exact{ReadCloser: f, left: info.Size() - offset}, nil
	}}
}

// headTail is how much of each end of a file goes into its identity.
const headTail = 64 << 10

// identify returns the identity of a local file of rows.
func identify(f file) (Source, error) {
	opened, err := os.Open(f.name)
	if err != nil {
		return Source{}, fmt.Errorf("open %s: %w", f.name, withoutPath(err))
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return Source{}, fmt.Errorf("open %s: %w", f.name, withoutPath(err))
	}
	sum := sha256.New()
	size := info.Size()
	for _, part := range []io.Reader{
		io.NewSectionReader(opened, 0, headTail),
		io.NewSectionReader(opened, max(headTail, size-headTail), headTail),
	} {
		if _, err := io.Copy(sum, part); err != nil {
			return Source{}, fmt.Errorf("read %s: %w", f.name, withoutPath(err))
		}
	}
	return Source{Name: absolute(f.name), Size: size, ModTime: info.ModTime().UTC(), Hash: sumText(sum)}, nil
}

// withoutPath returns the cause alone, for callers that name the file
// themselves.
func withoutPath(err error) error {
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Err
	}
	return err
}

// walkLocal visits the files below root in the order of their names.
func walkLocal(ctx context.Context, root string, filter pathFilter, visit func(file, error) bool) {
	// The separator at the end makes WalkDir follow a root that is a link.
	err := filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		id, err := filepath.Rel(root, path)
		id = filepath.ToSlash(id)
		switch {
		case err != nil:
			return err
		case id == ".":
			return nil
		case hidden(d.Name()) && d.IsDir():
			return fs.SkipDir
		case hidden(d.Name()), d.IsDir(), !filter.wants(id):
			return nil
		}
		f, err := regular(path, id)
		if err != nil {
			return err
		}
		if !visit(f, nil) {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		visit(file{}, fmt.Errorf("list %s: %w", root, err))
	}
}

// regular returns the file at path, which may be a link to one.
func regular(path, id string) (file, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return file{}, fmt.Errorf("%s: %w (a link that leads nowhere, or a file that has just gone)", path, withoutPath(err))
	case info.IsDir():
		return file{}, fmt.Errorf("%s is a link to a directory; give that directory as a SOURCE of its own", path)
	case !info.Mode().IsRegular():
		return file{}, fmt.Errorf("%s is not a file; move it away, or give its name a dot in front", path)
	}
	return localFile(path, id, info), nil
}
