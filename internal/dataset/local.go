package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func openLocal(path string, opts Options) (source, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; give an existing file, a directory or gs://bucket/prefix", path)
	}
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return files{list: func(ctx context.Context, visit func(file, error) bool) {
			walkLocal(ctx, path, visit)
		}}, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a directory, and a dataset is read more than once", path)
	}
	read, err := readerFor(path)
	if err != nil {
		return nil, err
	}
	return rows{file: localFile(path, filepath.Base(path), info.Size()), read: read, opts: opts}, nil
}

func localFile(path, id string, size int64) file {
	return file{name: path, id: id, size: size, open: func(context.Context) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, withoutPath(err)
		}
		return f, nil
	}}
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
func walkLocal(ctx context.Context, root string, visit func(file, error) bool) {
	// The separator at the end makes WalkDir follow a root that is a link.
	err := filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		id, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case id == ".":
			return nil
		case hidden(d.Name()) && d.IsDir():
			return fs.SkipDir
		case hidden(d.Name()), d.IsDir():
			return nil
		}
		f, err := regular(path, filepath.ToSlash(id))
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
	return localFile(path, id, info.Size()), nil
}
