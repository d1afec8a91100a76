package infertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// recorder is a testing.TB that keeps complaints instead of failing.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	texts []string
}

func (r *recorder) Helper() {}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, fmt.Sprintf(format, args...))
}

func (r *recorder) said(want string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.texts, func(text string) bool { return strings.Contains(text, want) })
}

func inputs(t *testing.T, r worker.Runner, ids ...string) []worker.Input {
	t.Helper()
	var batch []worker.Input
	for _, id := range ids {
		in, err := r.Prepare(t.Context(), item.Item{
			Key: item.Key{RunID: "r", ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(`{}`),
		})
		if err != nil {
			t.Fatalf("Prepare(%s): %v", id, err)
		}
		batch = append(batch, in)
	}
	return batch
}

func TestFakeFailsTheTestOnBrokenContract(t *testing.T) {
	for _, tc := range []struct {
		name string
		use  func(t *testing.T, f *infertest.Fake)
		want string
	}{
		{"before load", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Run(t.Context(), inputs(t, f, "a"))
		}, "before Load"},
		{"after close", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			_ = f.Close()
			_, _ = f.Run(t.Context(), inputs(t, f, "a"))
		}, "after Close"},
		{"duplicate IDs", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			_, _ = f.Run(t.Context(), inputs(t, f, "a", "a"))
		}, "twice in one batch"},
		{"above max batch", func(t *testing.T, f *infertest.Fake) {
			f.Info.MaxBatch = 1
			_, _ = f.Load(t.Context())
			_, _ = f.Run(t.Context(), inputs(t, f, "a", "b"))
		}, "MaxBatch is 1"},
		{"empty batch", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			_, _ = f.Run(t.Context(), nil)
		}, "empty batch"},
		{"unprepared", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			_, _ = f.Run(t.Context(), []worker.Input{{Item: item.Item{Key: item.Key{RunID: "r", ItemID: "a"}}}})
		}, "did not come from Prepare"},
		{"load twice", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			_, _ = f.Load(t.Context())
		}, "Load called again"},
		{"concurrency", func(t *testing.T, f *infertest.Fake) {
			_, _ = f.Load(t.Context())
			batch := inputs(t, f, "b")
			f.RunFunc = func(ctx context.Context, in []worker.Input) ([]worker.Output, error) {
				if in[0].Item.ItemID == "a" {
					return f.Run(ctx, batch) // a second call while this one runs
				}
				return nil, nil
			}
			_, _ = f.Run(t.Context(), inputs(t, f, "a"))
		}, "2 Run calls at once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tb := &recorder{TB: t}
			tc.use(t, &infertest.Fake{T: tb})
			if !tb.said(tc.want) {
				t.Errorf("complaints = %q; want one that says %q", tb.texts, tc.want)
			}
		})
	}
}

func TestFakeCloseCancelsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &infertest.Fake{T: t, RunFunc: func(ctx context.Context, _ []worker.Input) ([]worker.Output, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Hour):
				return nil, nil
			}
		}}
		if _, err := f.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		start, done := time.Now(), make(chan error)
		batch := inputs(t, f, "a", "b")
		go func() {
			_, err := f.Run(t.Context(), batch)
			done <- err
		}()
		synctest.Wait()
		if got := f.Running(); got != 1 {
			t.Errorf("Running() = %d; want 1", got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, infertest.ErrClosed) {
			t.Errorf("Run = %v; want ErrClosed", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Run returned after %s; want at once", d)
		}
		want := [][]item.Key{{{RunID: "r", ItemID: "a"}, {RunID: "r", ItemID: "b"}}}
		if diff := cmp.Diff(want, f.Batches()); diff != "" {
			t.Errorf("Batches() (-want +got):\n%s", diff)
		}
		if got := f.Runs(want[0][1]); got != 1 {
			t.Errorf("Runs(r/b) = %d; want 1", got)
		}
	})
}
