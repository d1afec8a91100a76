package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/storage"

	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const limit = 1000

func newFetcher(t *testing.T) *fetch.Fetcher {
	t.Helper()
	f := fetch.New(limit)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// check fetches and compares; want is the payload, or text of an error of the
// class.
func check(t *testing.T, f *fetch.Fetcher, uri, want string, class worker.Class) {
	t.Helper()
	data, err := f.Fetch(t.Context(), uri)
	switch {
	case class == "":
		if err != nil || string(data) != want {
			t.Errorf("Fetch(%q) = %.50q, %v; want %.50q", uri, data, err, want)
		}
	case err == nil:
		t.Errorf("Fetch(%q) = %.50q; want an error", uri, data)
	case worker.ClassOf(err, "none") != class || !strings.Contains(err.Error(), want):
		t.Errorf("Fetch(%q) = %v; want class %s and %q in it", uri, err, class, want)
	case strings.Count(err.Error(), string(class)) > 1:
		t.Errorf("Fetch(%q) = %v; the class stands there twice", uri, err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file://" + path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t)
	for _, tc := range []struct {
		name, uri, want string
		class           worker.Class
	}{
		{"good", write("good", 5), "xxxxx", ""},
		{"empty", write("empty", 0), "", ""},
		{"at the limit", write("full", limit), strings.Repeat("x", limit), ""},
		{"escaped name", strings.Replace(write("a b#1.png", 1), " ", "%20", 1), "x", ""},
		{"over the limit", write("large", limit+1), "pull.max_outstanding_bytes allows 1000", worker.ClassInvalidInput},
		{"no size said", "file:///proc/self/cmdline", "", ""},
		{"absent", "file://" + dir + "/none", "no such file", worker.ClassInvalidInput},
		{"below a file", "file://" + dir + "/good/x", "not a directory", worker.ClassInvalidInput},
		{"directory", "file://" + dir, "not a regular file", worker.ClassInvalidInput},
		{"named pipe", "file://" + pipe, "not a regular file", worker.ClassInvalidInput},
		{"relative", "file://data/x", "file:///absolute/path", worker.ClassInvalidInput},
		{"bad escape", "file:///%zz", "invalid URL escape", worker.ClassInvalidInput},
		{"other scheme", "https://example.com/x", "only gs:// and file:// are known", worker.ClassInvalidInput},
		{"no scheme", "/etc/passwd", "only gs:// and file:// are known", worker.ClassInvalidInput},
		{"no object", "gs://bucket", "gs://bucket/object", worker.ClassInvalidInput},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "no size said" {
				data, err := f.Fetch(t.Context(), tc.uri)
				if err != nil || len(data) == 0 {
					t.Errorf("Fetch = %q, %v; want the content of a file whose size reads 0", data, err)
				}
				return
			}
			check(t, f, tc.uri, tc.want, tc.class)
		})
	}
}

func TestObjects(t *testing.T) {
	server := localcloudtest.Start(t)
	t.Setenv("STORAGE_EMULATOR_HOST", server.Addr(localcloud.GCS))
	client, err := storage.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	bucket := client.Bucket("data")
	if err := bucket.Create(t.Context(), "demo", &storage.BucketAttrs{VersioningEnabled: true}); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) int64 {
		w := bucket.Object(name).NewWriter(t.Context())
		_, err := w.Write([]byte(text))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return w.Attrs().Generation
	}
	generation := put("dir/a b.png", "first")
	put("odd#name", "odd")
	put("large", strings.Repeat("x", limit+1))

	f := newFetcher(t)
	check(t, f, "gs://data/dir/a b.png", "first", "")
	check(t, f, fmt.Sprintf("gs://data/dir/a b.png#%d", generation), "first", "")
	check(t, f, "gs://data/odd#name", "odd", "")
	check(t, f, "gs://data/none", "object doesn't exist", worker.ClassInvalidInput)
	check(t, f, "gs://none/none", "exist", worker.ClassInvalidInput)
	check(t, f, "gs://data/large", "pull.max_outstanding_bytes allows 1000", worker.ClassInvalidInput)
}

func TestOutageIsTransient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	f := newFetcher(t)
	_, err := f.Fetch(ctx, "gs://data/x")
	if got := worker.ClassOf(err, "none"); got != worker.ClassTransient {
		t.Errorf("class of %v = %s; want transient", err, got)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := f.Fetch(t.Context(), "gs://data/x"); err == nil {
		t.Error("Fetch after Close succeeded")
	}
}
