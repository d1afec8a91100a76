package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
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

// splitAddress splits gs://bucket/name.
func splitAddress(address string) (bucket, name string, err error) {
	bucket, name, _ = strings.Cut(strings.TrimPrefix(address, bucketScheme), "/")
	if bucket == "" || isGlob(bucket) {
		return "", "", fmt.Errorf("%s names no bucket; write gs://bucket/prefix", address)
	}
	return bucket, name, nil
}

// openBucket opens gs://bucket/name: an object of that name if there is one,
// else a pattern, else a prefix. A slash at the end makes it a prefix in any
// case.
func (d *Dataset) openBucket(ctx context.Context, address string) ([]source, error) {
	bucketName, name, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	client, err := d.bucket.get(ctx)
	if err != nil {
		return nil, err
	}
	bucket := client.Bucket(bucketName)
	if name != "" && !strings.HasSuffix(name, "/") {
		attrs, err := bucket.Object(name).Attrs(ctx)
		switch {
		case err == nil:
			return d.openObject(bucket, attrs)
		case !errors.Is(err, storage.ErrObjectNotExist):
			return nil, explainBucket(address, err)
		case !isGlob(name) && formatOfName(name) != "":
			return nil, explainBucket(address, err)
		}
	}
	prefix, pattern := name, ""
	if isGlob(name) {
		prefix, pattern = splitGlob(name)
	} else if name != "" && !strings.HasSuffix(name, "/") {
		prefix += "/"
	}
	return d.openListing(ctx, listing{name: address, filter: d.filter(pattern), list: func(ctx context.Context, filter pathFilter, from string, visit func(file, error) bool) {
		listBucket(ctx, bucket, address, prefix, filter, from, visit)
	}})
}

// openObject opens one object.
func (d *Dataset) openObject(bucket *storage.BucketHandle, attrs *storage.ObjectAttrs) ([]source, error) {
	f := objectFile(bucket, attrs, path.Base(attrs.Name))
	if d.opts.Format == FormatObjects {
		return d.openSet(listing{name: f.name, list: func(_ context.Context, _ pathFilter, _ string, visit func(file, error) bool) {
			visit(f, nil)
		}})
	}
	return []source{rowSource{file: f, opts: d.opts, temp: d.temp}}, nil
}

// objectFields are what is asked for of each object.
var objectFields = []string{"Bucket", "Name", "Size", "Generation", "ContentType", "ContentEncoding"}

func listBucket(ctx context.Context, bucket *storage.BucketHandle, address, prefix string, filter pathFilter, from string, visit func(file, error) bool) {
	query := &storage.Query{Prefix: prefix}
	if from != "" {
		_, query.StartOffset, _ = strings.Cut(strings.TrimPrefix(from, bucketScheme), "/")
	}
	if err := query.SetAttrSelection(objectFields); err != nil {
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
		id := strings.TrimPrefix(attrs.Name, prefix)
		if folderMarker(id, attrs.Size) || hidden(id) || !filter.wants(id) {
			continue
		}
		if !visit(objectFile(bucket, attrs, id), nil) {
			return
		}
	}
}

// folderMarker tells whether an object only makes a folder appear: its name
// ends in a slash, or as Hadoop writes it.
func folderMarker(id string, size int64) bool {
	return id == "" || strings.HasSuffix(id, "/") || size == 0 && strings.HasSuffix(id, "_$folder$")
}

// objectFile pins the generation: what was listed is what is read.
func objectFile(bucket *storage.BucketHandle, attrs *storage.ObjectAttrs, id string) file {
	object := bucket.Object(attrs.Name)
	name := bucketScheme + attrs.Bucket + "/" + attrs.Name
	uri := name
	if attrs.Generation > 0 {
		object = object.Generation(attrs.Generation)
		uri += "#" + strconv.FormatInt(attrs.Generation, 10)
	}
	return file{
		name: name, id: id, uri: uri, size: attrs.Size, version: attrs.Generation,
		contentType: attrs.ContentType, encoding: attrs.ContentEncoding,
		source: Source{Name: name, Size: attrs.Size, Generation: attrs.Generation},
		open: func(ctx context.Context, offset int64) (io.ReadCloser, error) {
			if offset > 0 && offset == attrs.Size {
				return io.NopCloser(strings.NewReader("")), nil // no range could be asked for
			}
			// As it is stored: what a server unpacks has no size, and no range.
			r, err := object.ReadCompressed(true).NewRangeReader(ctx, offset, -1)
			if err != nil {
				return nil, err
			}
			return &exact{ReadCloser: r, left: attrs.Size - offset}, nil
		},
	}
}

func explainBucket(address string, err error) error {
	if errors.Is(err, storage.ErrBucketNotExist) || errors.Is(err, storage.ErrObjectNotExist) {
		return fmt.Errorf("%s does not exist, or the account in use may not see it (roles/storage.objectViewer): %w", address, err)
	}
	return fmt.Errorf("list %s: %w", address, err)
}
