package gcs_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"

	"github.com/spotbatch/spotbatch/internal/localcloud/gcs"
)

// setup serves a Cloud Storage with one bucket and points the official client at it the way users do.
func setup(t *testing.T) (*storage.BucketHandle, string) {
	t.Helper()
	server, err := gcs.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	listener := httptest.NewServer(server.Handler())
	t.Cleanup(listener.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", listener.URL)
	client, err := storage.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	bucket := client.Bucket("data")
	if err := bucket.Create(t.Context(), "demo", nil); err != nil {
		t.Fatal(err)
	}
	return bucket, listener.URL
}

// upload writes an object; chunk 0 is one multipart request, anything else a resumable upload.
func upload(t *testing.T, object *storage.ObjectHandle, content []byte, chunk int) error {
	t.Helper()
	w := object.NewWriter(t.Context())
	w.ChunkSize = chunk
	if _, err := w.Write(content); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

func TestGenerationPreconditionHoldsForEachUploadType(t *testing.T) {
	tests := map[string]struct{ chunk, size int }{
		"multipart":                 {0, 100},
		"resumable, one chunk":      {googleapi.MinUploadChunkSize, 100},
		"resumable, several chunks": {googleapi.MinUploadChunkSize, 3*googleapi.MinUploadChunkSize + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bucket, _ := setup(t)
			object := bucket.Object("checkpoint")
			content := bytes.Repeat([]byte("x"), test.size)
			absent := object.If(storage.Conditions{DoesNotExist: true})
			if err := upload(t, absent, content, test.chunk); err != nil {
				t.Fatalf("first upload: %v", err)
			}
			err := upload(t, absent, []byte("other"), test.chunk)
			if apiErr, ok := errors.AsType[*googleapi.Error](err); !ok || apiErr.Code != http.StatusPreconditionFailed {
				t.Fatalf("upload over an existing object = %v, want 412", err)
			}
			attrs, err := object.Attrs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := upload(t, object.If(storage.Conditions{GenerationMatch: attrs.Generation}), []byte("new"), test.chunk); err != nil {
				t.Errorf("upload over the generation that is there: %v", err)
			}
			err = upload(t, object.If(storage.Conditions{GenerationMatch: attrs.Generation}), []byte("late"), test.chunk)
			if apiErr, ok := errors.AsType[*googleapi.Error](err); !ok || apiErr.Code != http.StatusPreconditionFailed {
				t.Errorf("upload over a generation that is gone = %v, want 412", err)
			}
			reader, err := object.NewReader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if got, err := io.ReadAll(reader); err != nil || string(got) != "new" {
				t.Errorf("content = %q, %v, want %q", got, err, "new")
			}
		})
	}
}

func TestListPrefixAndReadUnderAnotherHostName(t *testing.T) {
	bucket, url := setup(t)
	for _, name := range []string{"in/a.png", "in/b c.png", "out/x"} {
		if err := upload(t, bucket.Object(name), []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	objects := bucket.Objects(t.Context(), &storage.Query{Prefix: "in/"})
	for {
		attrs, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, attrs.Name)
	}
	if len(names) != 2 || names[0] != "in/a.png" || names[1] != "in/b c.png" {
		t.Errorf("objects below in/ = %q", names)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/data/in/a.png", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "localcloud.internal:4443"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "in/a.png" {
		t.Errorf("GET under another host name = %q, %v", body, err)
	}
}

func TestInternalEndpointsAreClosed(t *testing.T) {
	_, url := setup(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/_internal/delete_all", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("POST /_internal/delete_all = %d, want 404", resp.StatusCode)
	}
}

func TestConditionalDelete(t *testing.T) {
	bucket, _ := setup(t)
	object := bucket.Object("dir/a b")
	if err := upload(t, object, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	attrs, err := object.Attrs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = object.If(storage.Conditions{GenerationMatch: attrs.Generation + 1}).Delete(t.Context())
	if apiErr, ok := errors.AsType[*googleapi.Error](err); !ok || apiErr.Code != http.StatusPreconditionFailed {
		t.Errorf("delete of another generation = %v, want 412", err)
	}
	if err := object.If(storage.Conditions{GenerationMatch: attrs.Generation}).Delete(t.Context()); err != nil {
		t.Errorf("delete of the generation that is there: %v", err)
	}
	if err := object.Delete(t.Context()); !errors.Is(err, storage.ErrObjectNotExist) {
		t.Errorf("delete of nothing = %v, want ErrObjectNotExist", err)
	}
}

// Of many that create the same object, one wins.
func TestOneCreatorWins(t *testing.T) {
	bucket, _ := setup(t)
	var won atomic.Int32
	var group errgroup.Group
	for i := range 20 {
		group.Go(func() error {
			err := upload(t, bucket.Object("lock").If(storage.Conditions{DoesNotExist: true}), []byte{byte(i)}, 0)
			if apiErr, ok := errors.AsType[*googleapi.Error](err); ok && apiErr.Code == http.StatusPreconditionFailed {
				return nil
			}
			won.Add(1)
			return err
		})
	}
	if err := group.Wait(); err != nil || won.Load() != 1 {
		t.Errorf("%d of 20 creators won, %v, want 1", won.Load(), err)
	}
}
