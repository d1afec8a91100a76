package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

// callTimeout bounds one call, in which the client repeats what fails for the
// moment, 429 among it.
const callTimeout = 5 * time.Second

// chunkSize is more than a snapshot has: one request, which the client makes
// again when it fails. With 0 it would not.
const chunkSize = 256 << 10

// bucket is a prefix of a bucket with snapshots below it.
type bucket struct {
	client *storage.Client
	handle *storage.BucketHandle
	name   string
	prefix string
}

var _ store = (*bucket)(nil)

// openBucket opens gs://bucket/prefix.
func openBucket(ctx context.Context, address string, opts []option.ClientOption) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, bucketScheme), "/")
	client, err := storage.NewClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to Cloud Storage: %w", err)
	}
	return &bucket{client: client, handle: client.Bucket(name), name: name, prefix: prefix + "/"}, nil
}

func (b *bucket) object(number uint64) *storage.ObjectHandle {
	// What is done is the same when it is done twice: names are used once.
	return b.handle.Object(b.prefix + fileName(number)).Retryer(storage.WithPolicy(storage.RetryAlways))
}

func (b *bucket) list(ctx context.Context) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	query := &storage.Query{Prefix: b.prefix, Delimiter: "/"}
	if err := query.SetAttrSelection([]string{"Name"}); err != nil {
		return nil, err
	}
	var taken []uint64
	for objects := b.handle.Objects(ctx, query); ; {
		attrs, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			return taken, nil
		}
		if err != nil {
			return nil, b.explain("storage.objects.list", err)
		}
		if number, is := numberOf(strings.TrimPrefix(attrs.Name, b.prefix)); is {
			taken = append(taken, number)
		}
	}
}

func (b *bucket) read(ctx context.Context, number uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := b.object(number).NewReader(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return nil, errAbsent
	}
	if err != nil {
		return nil, b.explain("storage.objects.get", err)
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func (b *bucket) create(ctx context.Context, number uint64, data []byte) error {
	// To close a writer is to keep what was written to it; to end its context
	// is to drop it.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w := b.object(number).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	w.ContentType = "application/octet-stream"
	w.ChunkSize = chunkSize
	w.CRC32C, w.SendCRC32C = crc32.Checksum(data, castagnoli), true
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if api, is := errors.AsType[*googleapi.Error](err); is && api.Code == http.StatusPreconditionFailed {
		return errExists
	}
	return b.explain("storage.objects.create", err)
}

func (b *bucket) remove(ctx context.Context, number uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := b.object(number).Delete(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return nil
	}
	return b.explain("storage.objects.delete", err)
}

// explain says what to do about the errors that have a known cause.
func (b *bucket) explain(permission string, err error) error {
	if errors.Is(err, storage.ErrBucketNotExist) {
		return fmt.Errorf("bucket %s does not exist; create it, or name another: %w", b.name, err)
	}
	api, is := errors.AsType[*googleapi.Error](err)
	switch {
	case is && api.Code == http.StatusNotFound:
		return fmt.Errorf("bucket %s does not exist; create it, or name another: %w", b.name, err)
	case is && (api.Code == http.StatusForbidden || api.Code == http.StatusUnauthorized):
		return fmt.Errorf("the account in use needs the permission %s on bucket %s, which is in roles/storage.objectUser: %w", permission, b.name, err)
	}
	return err
}

func (b *bucket) close() error { return b.client.Close() }
