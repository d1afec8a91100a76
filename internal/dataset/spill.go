package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/spotbatch/spotbatch/internal/item"
)

// spiller keeps payloads that no message can carry in a bucket. Objects are
// named by their content: to keep the same payload again changes nothing.
type spiller struct {
	bucket *bucketClient
	// address is gs://bucket/prefix.
	address string
}

// row keeps the payload of it and points there instead.
func (s *spiller) row(ctx context.Context, it *item.Item) error {
	data := it.Data
	sum := sha256.Sum256(data)
	uri, err := s.put(ctx, fmt.Sprintf("%x", sum), it.ContentType, int64(len(data)), func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
	it.Data, it.URI = nil, uri
	return err
}

// file keeps a whole file.
func (s *spiller) file(ctx context.Context, f file, it *item.Item) error {
	name, err := f.hash(ctx)
	if err == nil {
		it.URI, err = s.put(ctx, name, it.ContentType, f.size, func(w io.Writer) error { return f.copyTo(ctx, w) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// put writes an object unless it is there, and returns its URI.
func (s *spiller) put(ctx context.Context, name, contentType string, size int64, write func(io.Writer) error) (string, error) {
	bucket, prefix, err := splitAddress(s.address)
	if err != nil {
		return "", err
	}
	client, err := s.bucket.get(ctx)
	if err != nil {
		return "", err
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		name = prefix + "/" + name
	}
	object := client.Bucket(bucket).Object(name)
	attrs, err := object.Attrs(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		attrs, err = upload(ctx, object, contentType, write)
	}
	if err != nil {
		return "", fmt.Errorf("put a payload of %d bytes into %s (--spill): %w", size, s.address, err)
	}
	return bucketScheme + bucket + "/" + name + "#" + strconv.FormatInt(attrs.Generation, 10), nil
}

func upload(ctx context.Context, object *storage.ObjectHandle, contentType string, write func(io.Writer) error) (*storage.ObjectAttrs, error) {
	// Only to cancel keeps a part of the payload from becoming the object.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := object.If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	w.ContentType = contentType
	if err := write(w); err != nil {
		cancel()
		return nil, errors.Join(err, ignoreCanceled(w.Close()))
	}
	err := w.Close()
	if api := (*googleapi.Error)(nil); errors.As(err, &api) && api.Code == http.StatusPreconditionFailed {
		return object.Attrs(ctx) // somebody else, or a try whose answer was lost
	}
	if err != nil {
		return nil, err
	}
	return w.Attrs(), nil
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
