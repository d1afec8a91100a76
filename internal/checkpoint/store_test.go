package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, localcloudtest.IgnoreClients()...) }

// newBucket starts a Cloud Storage with a bucket called states.
func newBucket(t *testing.T) *localcloud.Server {
	t.Helper()
	server := localcloudtest.Start(t)
	client, err := storage.NewClient(t.Context(), localcloudtest.StorageOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Bucket("states").Create(t.Context(), "demo", nil); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestStores holds both kinds to the contract of store. It fails, too, when
// the double of Cloud Storage does not heed the precondition of an upload.
func TestStores(t *testing.T) {
	stores := map[string]func(t *testing.T) store{
		"directory": func(t *testing.T) store {
			d, err := openDir(filepath.Join(t.TempDir(), "a", "b"))
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		"bucket": func(t *testing.T) store {
			b, err := openBucket(t.Context(), "gs://states/some/where", localcloudtest.StorageOptions(newBucket(t)))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
	for name, newStore := range stores {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			ctx := t.Context()
			if taken, err := s.list(ctx); err != nil || len(taken) > 0 {
				t.Errorf("taken %v, error %v", taken, err)
			}
			if _, err := s.read(ctx, 1); !errors.Is(err, errAbsent) {
				t.Errorf("read nothing: %v", err)
			}
			for _, n := range []uint64{1, 2, 11} {
				if err := s.create(ctx, n, []byte(fmt.Sprint(n))); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.create(ctx, 2, []byte("again")); !errors.Is(err, errExists) {
				t.Errorf("create again: %v, want %v", err, errExists)
			}
			if data, err := s.read(ctx, 2); err != nil || string(data) != "2" {
				t.Errorf("read %q, error %v", data, err)
			}
			for range 2 {
				if err := s.remove(ctx, 1); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
			taken, err := s.list(ctx)
			slices.Sort(taken)
			if err != nil || !slices.Equal(taken, []uint64{2, 11}) {
				t.Errorf("taken %v, error %v", taken, err)
			}
			createAtOnce(t, s)
		})
	}
}

// createAtOnce lets ten processes take one number.
func createAtOnce(t *testing.T, s store) {
	t.Helper()
	var wg sync.WaitGroup
	var won atomic.Int64
	for i := range 10 {
		wg.Go(func() {
			switch err := s.create(t.Context(), 20, []byte(fmt.Sprint(i))); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, errExists):
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 10 have created the same number", won.Load())
	}
}

func TestStateInABucket(t *testing.T) {
	server := newBucket(t)
	open := func() *State {
		s, err := Open(t.Context(), "gs://states/mine/", "r", slog.New(slog.DiscardHandler), localcloudtest.StorageOptions(server)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	first := open()
	if first.Where() != "gs://states/mine/r" {
		t.Errorf("state at %s", first.Where())
	}
	var value string
	if found, err := first.Load(t.Context(), &value); err != nil || found {
		t.Fatalf("found %q, error %v", value, err)
	}
	save(t, first, "a")
	// The reply is lost, and the client asks again: that is no other process.
	server.Faults().Add(fault.Rule{Service: "storage", When: fault.After, Code: codes.Unavailable, Count: 1})
	save(t, first, "b")
	server.Faults().Clear()
	second := open()
	if found, err := second.Load(t.Context(), &value); err != nil || !found || value != "b" {
		t.Fatalf("found %q, error %v", value, err)
	}
	save(t, second, "c")
	if err := first.Save(t.Context(), "d"); !errors.Is(err, ErrOvertaken) {
		t.Errorf("error %v, want %v", err, ErrOvertaken)
	}
}

func TestBucketErrorsSayWhatToDo(t *testing.T) {
	server := newBucket(t)
	tests := []struct {
		name, bucket string
		code         codes.Code
		want         string
	}{
		{"no such bucket", "nowhere", codes.OK, "bucket nowhere does not exist; create it"},
		{"no permission", "states", codes.PermissionDenied, "needs the permission storage.objects."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.code != codes.OK {
				server.Faults().Add(fault.Rule{Service: "storage", Code: test.code})
				defer server.Faults().Clear()
			}
			s, err := Open(t.Context(), "gs://"+test.bucket, "r", slog.New(slog.DiscardHandler), localcloudtest.StorageOptions(server)...)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var value string
			_, err = s.Load(t.Context(), &value)
			if err == nil {
				err = s.Save(t.Context(), "a")
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestSaveToABucketThatHangsEnds(t *testing.T) {
	server := newBucket(t)
	s, err := Open(t.Context(), "gs://states", "r", slog.New(slog.DiscardHandler), localcloudtest.StorageOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var value string
	if _, err := s.Load(t.Context(), &value); err != nil {
		t.Fatal(err)
	}
	server.Faults().Add(fault.Rule{Service: "storage", BlackHole: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Save(ctx, "a"); err == nil {
		t.Error("saved to a service that hangs")
	}
}
