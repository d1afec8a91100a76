// Package fetch loads payloads that a message only points at: objects of
// Cloud Storage (gs://bucket/object, with #generation for one version of it)
// and local files (file:///absolute/path).
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ worker.Fetcher = (*Fetcher)(nil)

// Fetcher implements worker.Fetcher. It is safe for concurrent use.
type Fetcher struct {
	limit int64

	mu     sync.Mutex
	client *storage.Client // nil until the first gs:// URI
	closed bool
}

// New makes a Fetcher of payloads up to limit bytes. It connects to nothing
// until the first gs:// URI, so that workers that never see one need no
// credentials. STORAGE_EMULATOR_HOST works as in every client.
func New(limit int64) *Fetcher { return &Fetcher{limit: limit} }

// Fetch implements worker.Fetcher.
func (f *Fetcher) Fetch(ctx context.Context, uri string) ([]byte, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	var data []byte
	var err error
	switch scheme {
	case "gs":
		data, err = f.object(ctx, rest)
	case "file":
		data, err = f.file(rest)
	default:
		err = invalidf("only gs:// and file:// are known")
	}
	if err != nil {
		return nil, worker.Fail(worker.ClassOf(err, worker.ClassTransient), fmt.Errorf("fetch %.300q: %w", uri, reasonOf(err)))
	}
	return data, nil
}

// Close ends the connections.
func (f *Fetcher) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.client == nil {
		return nil
	}
	client := f.client
	f.client = nil
	return client.Close()
}

func invalidf(format string, args ...any) error {
	return worker.Failf(worker.ClassInvalidInput, format, args...)
}

// reasonOf takes the class off, which Fetch puts on again in front.
func reasonOf(err error) error {
	if worker.ClassOf(err, "") == worker.ClassInvalidInput {
		return errors.Unwrap(err)
	}
	return err
}

func (f *Fetcher) file(path string) ([]byte, error) {
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, invalidf("parse URI: %w", err)
	}
	if !filepath.IsAbs(path) {
		return nil, invalidf("a file URI reads file:///absolute/path")
	}
	// Non-blocking: opening a named pipe would wait for a writer for ever.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG),
		errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EINVAL):
		return nil, worker.Fail(worker.ClassInvalidInput, err)
	case err != nil:
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, invalidf("it is not a regular file")
	}
	return f.read(file, info.Size())
}

// read reads all of r, which is said to have size bytes.
func (f *Fetcher) read(r io.Reader, size int64) ([]byte, error) {
	if size > f.limit {
		return nil, f.tooLarge(size)
	}
	// The size is only what was said: a file may grow.
	data := make([]byte, 0, max(size, 0)+1)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > f.limit:
			return nil, f.tooLarge(int64(len(data)))
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}

func (f *Fetcher) tooLarge(size int64) error {
	return invalidf("it has %d bytes or more; pull.max_outstanding_bytes allows %d", size, f.limit)
}

func (f *Fetcher) object(ctx context.Context, path string) ([]byte, error) {
	bucket, name, _ := strings.Cut(path, "/")
	if bucket == "" || name == "" {
		return nil, invalidf("a Cloud Storage URI reads gs://bucket/object")
	}
	client, err := f.storage(ctx)
	if err != nil {
		return nil, err
	}
	object := client.Bucket(bucket).Object(name)
	if name, version, ok := cutGeneration(name); ok {
		object = client.Bucket(bucket).Object(name).Generation(version)
	}
	r, err := object.NewReader(ctx)
	if err != nil {
		return nil, objectError(err)
	}
	defer func() { _ = r.Close() }()
	data, err := f.read(r, r.Attrs.Size)
	if err != nil {
		return nil, objectError(err)
	}
	return data, nil
}

// cutGeneration splits object#generation. A # that no number follows belongs
// to the object's name.
func cutGeneration(name string) (object string, generation int64, ok bool) {
	i := strings.LastIndexByte(name, '#')
	if i <= 0 {
		return name, 0, false
	}
	generation, err := strconv.ParseInt(name[i+1:], 10, 64)
	if err != nil || generation <= 0 {
		return name, 0, false
	}
	return name[:i], generation, true
}

// objectError gives the errors their class that no later try can mend. A
// missing permission is not among them: it is mended at the bucket, and then
// every item can be read.
func objectError(err error) error {
	var api *googleapi.Error
	switch {
	case errors.Is(err, storage.ErrObjectNotExist), errors.Is(err, storage.ErrBucketNotExist):
		return worker.Fail(worker.ClassInvalidInput, err)
	case errors.As(err, &api) && (api.Code == http.StatusBadRequest || api.Code == http.StatusNotFound):
		return worker.Fail(worker.ClassInvalidInput, err)
	}
	return err
}

// storage returns the client, and connects at the first call.
func (f *Fetcher) storage(ctx context.Context) (*storage.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("the fetcher is closed")
	}
	if f.client == nil {
		// The client outlives the call, and keeps values of its context.
		client, err := storage.NewClient(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("connect to Cloud Storage: %w", err)
		}
		f.client = client
	}
	return f.client, nil
}
