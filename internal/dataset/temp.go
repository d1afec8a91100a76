package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// tempFiles are files that vanish with the process, however it ends: they have
// no name any more when they are used.
type tempFiles struct {
	mu   sync.Mutex
	open []*os.File
}

// create makes a file. The caller may close it when it is not needed any more.
func (t *tempFiles) create() (*os.File, error) {
	f, err := os.CreateTemp("", "spotbatch-*")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file (TMPDIR says where): %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("create a temporary file: %w", err), f.Close())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, f)
	return f, nil
}

// copy keeps all of r in a new file, and returns its size.
func (t *tempFiles) copy(r io.Reader) (*os.File, int64, error) {
	f, err := t.create()
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(f, r)
	if err != nil {
		t.release(f)
		return nil, 0, err
	}
	return f, size, nil
}

// release closes a file before its time.
func (t *tempFiles) release(f *os.File) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, other := range t.open {
		if other == f {
			t.open = append(t.open[:i], t.open[i+1:]...)
			_ = f.Close() // nobody reads it again
			return
		}
	}
}

func (t *tempFiles) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.open {
		_ = f.Close() // nobody reads them again
	}
	t.open = nil
}
