package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
)

const bucketScheme = "gs://"

// bucketClient connects when the first bucket is named, so that a local
// dataset needs no credentials.
type bucketClient struct {
	mu     sync.Mutex
	client *storage.Client
}

func (b *bucketClient) get(ctx context.Context) (*storage.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	client, err := storage.NewClient(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to Cloud Storage: %w", err)
	}
	b.client = client
	return client, nil
}

func (b *bucketClient) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		return nil
	}
	return b.client.Close()
}

// openBucket opens gs://bucket/name. A name with the extension of rows is an
// object, any other the prefix of objects; a slash at the end makes it a
// prefix in any case.
func openBucket(ctx context.Context, b *bucketClient, address string, opts Options) (source, error) {
	bucketName, name, _ := strings.Cut(strings.TrimPrefix(address, bucketScheme), "/")
	if bucketName == "" {
		return nil, fmt.Errorf("%s names no bucket; write gs://bucket/prefix", address)
	}
	client, err := b.get(ctx)
	if err != nil {
		return nil, err
	}
	bucket := client.Bucket(bucketName)
	if read, err := readerFor(name); err == nil && !strings.HasSuffix(name, "/") {
		attrs, err := bucket.Object(name).Attrs(ctx)
		if err != nil {
			return nil, explainBucket(address, err)
		}
		return rows{file: objectFile(bucket, attrs), read: read, opts: opts}, nil
	}
	prefix := name
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return files{list: func(ctx context.Context, visit func(file, error) bool) {
		listBucket(ctx, bucket, address, prefix, visit)
	}}, nil
}

func listBucket(ctx context.Context, bucket *storage.BucketHandle, address, prefix string, visit func(file, error) bool) {
	query := &storage.Query{Prefix: prefix}
	if err := query.SetAttrSelection([]string{"Bucket", "Name", "Size", "Generation"}); err != nil {
		visit(file{}, fmt.Errorf("list %s: %w", address, err))
		return
	}
	objects := bucket.Objects(ctx, query)
	for {
		attrs, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			return
		}
		if err != nil {
			visit(file{}, explainBucket(address, err))
			return
		}
		f := objectFile(bucket, attrs)
		f.id = strings.TrimPrefix(attrs.Name, prefix)
		// An object whose name ends in a slash only makes a folder appear.
		if f.id == "" || strings.HasSuffix(f.id, "/") || hidden(f.id) {
			continue
		}
		if !visit(f, nil) {
			return
		}
	}
}

// objectFile pins the generation: what was listed is what is read.
func objectFile(bucket *storage.BucketHandle, attrs *storage.ObjectAttrs) file {
	object := bucket.Object(attrs.Name)
	if attrs.Generation > 0 {
		object = object.Generation(attrs.Generation)
	}
	return file{
		name: bucketScheme + attrs.Bucket + "/" + attrs.Name,
		id:   attrs.Name,
		size: attrs.Size,
		open: func(ctx context.Context) (io.ReadCloser, error) {
			r, err := object.NewReader(ctx)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	}
}

func explainBucket(address string, err error) error {
	if errors.Is(err, storage.ErrBucketNotExist) || errors.Is(err, storage.ErrObjectNotExist) {
		return fmt.Errorf("%s does not exist, or the account in use may not see it (roles/storage.objectViewer): %w", address, err)
	}
	return fmt.Errorf("list %s: %w", address, err)
}
