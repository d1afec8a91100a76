package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/spotbatch/spotbatch/internal/item"
)

// file is a file or object that can be opened again and again.
type file struct {
	// name is for people.
	name string
	// id is the path below the source, with slashes.
	id   string
	size int64
	// version is the generation of an object, or the time of the last change
	// of a file in nanoseconds.
	version int64
	// uri points at an object for workers; empty for files of this machine.
	uri string
	// contentType and encoding are an object's metadata.
	contentType, encoding string
	// source is the identity of a file of rows.
	source Source
	// open reads the bytes as they are stored, from an offset on.
	open func(ctx context.Context, offset int64) (io.ReadCloser, error)
}

// listing finds files below a directory, prefix or pattern.
type listing struct {
	// name is the source as an absolute path or gs:// address.
	name   string
	filter pathFilter
	// list calls visit for each file that filter wants, in a fixed order, until
	// it says false. It may begin at the file of the given name, which the
	// caller has seen already.
	list func(ctx context.Context, filter pathFilter, from string, visit func(file, error) bool)
}

// files returns all at once, for rows.
func (l listing) files(ctx context.Context) ([]file, error) {
	var found []file
	var err error
	l.list(ctx, l.filter, "", func(f file, failed error) bool {
		// Spark and Hive keep their notes in files such as _SUCCESS.
		if err = failed; err == nil && !strings.HasPrefix(f.id, "_") && !strings.Contains(f.id, "/_") {
			found = append(found, f)
		}
		return err == nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no file matches", l.name)
	}
	return found, err
}

// fileSet is a source with an item a file.
type fileSet struct {
	listing
	opts  Options
	spill *spiller
	// known is the identity that the last whole survey has found.
	known *Source
}

func (s fileSet) identity() Source { return *s.known }

func (s fileSet) entries(ctx context.Context, after Position, payload bool) Entries {
	return func(yield func(Entry, error) bool) {
		skipping := after.File != ""
		now, sum, whole := Source{Name: s.name}, sha256.New(), !skipping
		s.list(ctx, s.filter, after.File, func(f file, err error) bool {
			if err != nil {
				whole = false
				return yield(Entry{}, err)
			}
			if skipping {
				skipping = f.name != after.File
				return true
			}
			now.Files++
			now.Size += f.size
			fmt.Fprintf(sum, "%q %d %d\n", f.id, f.size, f.version)
			more := yield(s.entry(ctx, f, payload))
			whole = whole && more
			return more
		})
		if skipping {
			yield(Entry{}, fmt.Errorf("%s: %s is not there any more; publish it as a new run", s.name, after.File))
		}
		if whole {
			now.Hash = hex.EncodeToString(sum.Sum(nil))
			*s.known = now
		}
	}
}

// entry makes the item of a file.
func (s fileSet) entry(ctx context.Context, f file, payload bool) (Entry, error) {
	e := Entry{Item: item.Item{Key: item.Key{ItemID: f.id}}, Position: Position{File: f.name}}
	if s.opts.ID == IDHash {
		id, err := f.hash(ctx)
		if err != nil {
			return e, fmt.Errorf("read %s: %w", f.name, err)
		}
		e.ItemID = id
	}
	limit := payloadLimit(e.ItemID)
	if f.uri != "" && (f.size >= s.opts.InlineBelow || f.size > limit) {
		e.URI, e.ContentType = f.uri, f.mime()
		return e, nil
	}
	if f.size > limit && s.spill == nil {
		return e, tooLarge(e.Position, f.size, limit)
	}
	switch {
	case !payload:
		return e, nil
	case f.size > limit:
		e.ContentType = f.mime()
		return e, s.spill.file(ctx, f, &e.Item)
	}
	data, err := f.read(ctx, limit)
	if err != nil {
		return e, fmt.Errorf("read %s: %w", f.name, err)
	}
	e.Data, e.ContentType = data, f.mime()
	if e.ContentType == anyBytes && contentTypeOfName(f.id) == "" {
		e.ContentType = sniff(data)
	}
	if int64(len(data)) > limit && f.uri != "" {
		// It was stored compressed.
		e.Data, e.URI = nil, f.uri
	}
	return e, nil
}

// mime goes by the name, and by the object's metadata when the name says
// nothing.
func (f file) mime() string {
	if known := contentTypeOfName(f.id); known != "" {
		return known
	}
	media, _, _ := strings.Cut(f.contentType, ";")
	if media = strings.TrimSpace(media); media != "" {
		return media
	}
	return anyBytes
}

// anyBytes is the type of what nobody knows anything of.
const anyBytes = "application/octet-stream"

// read returns the payload, and at most one byte more than limit of it: a file
// may have grown since it was listed.
func (f file) read(ctx context.Context, limit int64) ([]byte, error) {
	r, err := f.content(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, limit+1))
}

// content opens the file as workers see it: an object that is stored with
// Content-Encoding gzip is unpacked for them.
func (f file) content(ctx context.Context) (io.ReadCloser, error) {
	raw, err := f.open(ctx, 0)
	if err != nil || f.encoding != "gzip" {
		return raw, err
	}
	return gunzip(raw)
}

func (f file) hash(ctx context.Context) (string, error) {
	sum := sha256.New()
	if err := f.copyTo(ctx, sum); err != nil {
		return "", err
	}
	return sumText(sum), nil
}

func (f file) copyTo(ctx context.Context, w io.Writer) error {
	r, err := f.content(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

func sumText(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// hidden tells whether a part of the path begins with a dot.
func hidden(id string) bool {
	return strings.HasPrefix(id, ".") || strings.Contains(id, "/.")
}
