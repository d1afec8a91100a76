package onnx

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// fakeLibrary has one model that doubles its two numbers. Its hooks are called
// where they are set.
type fakeLibrary struct {
	t      *testing.T
	opened func()
	ran    func(ctx context.Context, rows int) error
	runs   atomic.Int32
	inside atomic.Int32
	closed atomic.Int32
}

func (l *fakeLibrary) inspect(config.Model) ([]port, []port, error) {
	return []port{{name: "x", elem: elemFloat32, dims: []int64{dynamic, 2}}},
		[]port{{name: "y", elem: elemFloat32, dims: []int64{dynamic, 2}}}, nil
}

func (l *fakeLibrary) open(config.Model, port, port) (engine, error) {
	if l.opened != nil {
		l.opened()
	}
	return l, nil
}

func (l *fakeLibrary) run(ctx context.Context, in tensor) (result, error) {
	l.inside.Add(1)
	defer l.inside.Add(-1)
	l.runs.Add(1)
	if l.closed.Load() > 0 {
		l.t.Error("run of a session that was freed")
	}
	rows := int(in.dims[0])
	if l.ran != nil {
		if err := l.ran(ctx, rows); err != nil {
			return result{}, classify(err)
		}
	}
	return result{dims: []int64{int64(rows), 2}, values: make(float32s, 2*rows)}, nil
}

func (l *fakeLibrary) close() error {
	if l.inside.Load() > 0 {
		l.t.Error("session freed under a run")
	}
	if l.closed.Add(1) > 1 {
		l.t.Error("session freed twice")
	}
	return nil
}

func newFake(t *testing.T, l *fakeLibrary, maxBatch, concurrency int) *Runner {
	t.Helper()
	l.t = t
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, []byte("model"), 0o600); err != nil {
		t.Fatal(err)
	}
	return newRunner(fieldConfig(path), maxBatch, concurrency, l)
}

func TestWarmUpRunsTheLargestBatchTwiceInEachPlace(t *testing.T) {
	largest := atomic.Int32{}
	l := &fakeLibrary{ran: func(_ context.Context, rows int) error {
		largest.Store(max(largest.Load(), int32(rows)))
		return nil
	}}
	r := newFake(t, l, 16, 3)
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.runs.Load() != 2*3 || largest.Load() != 16 {
		t.Errorf("%d runs of up to %d, want 6 of 16", l.runs.Load(), largest.Load())
	}
	if err := r.Close(); err != nil || l.closed.Load() != 1 {
		t.Errorf("close: %v; session freed %d times, want once", err, l.closed.Load())
	}
	if err := r.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// TestWarmUpFindsWhatFits is field case 3.2: what the second run does not fit is
// no batch size to work with.
func TestWarmUpFindsWhatFits(t *testing.T) {
	seen := map[int]int{}
	l := &fakeLibrary{ran: func(_ context.Context, rows int) error {
		seen[rows]++
		if rows > 8 || rows == 8 && seen[rows] == 2 {
			return errors.New("CUDA failure 2: out of memory")
		}
		return nil
	}}
	r := newFake(t, l, 16, 1)
	info, err := r.Load(t.Context())
	if err != nil || info.MaxBatch != 4 {
		t.Errorf("load: max batch %d, error %v; want 4", info.MaxBatch, err)
	}
	if diff := cmp.Diff(map[int]int{16: 1, 8: 2, 4: 2}, seen); diff != "" {
		t.Error(diff)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestLoadFailsWhenNothingFits(t *testing.T) {
	l := &fakeLibrary{ran: func(context.Context, int) error { return errors.New("CUDA failure 2: out of memory") }}
	r := newFake(t, l, 4, 1)
	if _, err := r.Load(t.Context()); worker.ClassOf(err, "") != worker.ClassOutOfMemory {
		t.Errorf("load: got %v, want out_of_memory", err)
	}
	if l.closed.Load() != 1 {
		t.Error("session was not freed")
	}
}

func TestLoadReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &fakeLibrary{opened: func() { <-release }}
		r := newFake(t, l, 4, 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("drained"))
		defer cancel()
		began := time.Now()
		if _, err := r.Load(ctx); err == nil || !strings.Contains(err.Error(), "drained") {
			t.Errorf("load: got %v, want the cause", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("load returned after %s, want 1s", took)
		}
		if err := r.Close(); err == nil {
			t.Error("close: no error, though the library is still at work")
		}
		close(release)
		synctest.Wait()
		if l.closed.Load() != 1 || l.runs.Load() != 0 {
			t.Errorf("session freed %d times after %d runs, want once after none", l.closed.Load(), l.runs.Load())
		}
	})
}

// TestCloseLeavesARunThatDoesNotEnd is field case 3.4: Close is bounded, and it
// is the run that frees the session when it comes back.
func TestCloseLeavesARunThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &fakeLibrary{}
		r := newFake(t, l, 2, 1)
		if _, err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.ran = func(context.Context, int) error { <-release; return nil }
		ran := make(chan error, 1)
		batch := prepare(t, r, `{"x":[1,2]}`)
		go func() {
			_, err := r.Run(t.Context(), batch)
			ran <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := r.Close(); err == nil {
			t.Error("close: no error, though a run is under way")
		}
		if took := time.Since(began); took != closeWait {
			t.Errorf("close took %s, want %s", took, closeWait)
		}
		if l.closed.Load() != 0 {
			t.Error("session freed under a run")
		}
		close(release)
		if err := <-ran; err != nil {
			t.Errorf("run that came to its own end: %v", err)
		}
		synctest.Wait()
		if l.closed.Load() != 1 {
			t.Error("session was not freed")
		}
	})
}

func TestCloseStopsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLibrary{}
		r := newFake(t, l, 2, 1)
		if _, err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.ran = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return errors.New("exiting due to terminate flag being set")
		}
		ran := make(chan error, 1)
		batch := prepare(t, r, `{"x":[1,2]}`)
		go func() {
			_, err := r.Run(t.Context(), batch)
			ran <- err
		}()
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ran; !errors.Is(err, ErrClosed) || worker.ClassOf(err, "") != worker.ClassTransient {
			t.Errorf("run: got %v, want a transient ErrClosed", err)
		}
	})
}

func TestStoppedRunStillTellsOfItsDevice(t *testing.T) {
	l := &fakeLibrary{}
	r := newFake(t, l, 2, 1)
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch := prepare(t, r, `{"x":[1,2]}`)
	tests := []struct {
		text string
		want worker.Class
	}{
		{"CUDA failure 700: an illegal memory access was encountered", worker.ClassDevice},
		{"CUDA failure 2: out of memory", worker.ClassTransient},
	}
	for _, test := range tests {
		ctx, cancel := context.WithCancel(t.Context())
		l.ran = func(context.Context, int) error { cancel(); return errors.New(test.text) }
		if _, err := r.Run(ctx, batch); worker.ClassOf(err, "") != test.want {
			t.Errorf("%s in a stopped run: got %v, want %s", test.text, err, test.want)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	r := newFake(t, &fakeLibrary{}, 2, 1)
	if _, err := r.Prepare(t.Context(), newItem("a", `{"x":[1,2]}`)); err == nil {
		t.Error("prepare before load: no error")
	}
	if _, err := r.Run(t.Context(), make([]worker.Input, 1)); err == nil {
		t.Error("run before load: no error")
	}
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.Prepare(t.Context(), newItem("a", `{"x":[1]}`))
	if worker.ClassOf(err, "") != worker.ClassInvalidInput {
		t.Errorf("prepare of a bad item: got %v, want invalid_input", err)
	}
	if _, err := r.Run(t.Context(), []worker.Input{{Value: "foreign"}}); worker.ClassOf(err, "") != worker.ClassBatchError {
		t.Errorf("run of a foreign input: got %v, want batch_error", err)
	}
	if outputs, err := r.Run(t.Context(), nil); err != nil || len(outputs) != 0 {
		t.Errorf("run of nothing: got %v, %v", outputs, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
