package dataset

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// spool copies a stream to a temporary file, and identifies it by its whole
// content: a stream has no version that could be told from another.
func spool(ctx context.Context, temp *tempFiles, r io.Reader) (*os.File, Source, error) {
	type copied struct {
		file *os.File
		size int64
		err  error
	}
	sum := sha256.New()
	done := make(chan copied, 1)
	// A read from a terminal or pipe cannot be interrupted: when ctx ends, this
	// goroutine is left to end with the process.
	go func() {
		f, size, err := temp.copy(io.TeeReader(r, sum))
		done <- copied{f, size, err}
	}()
	select {
	case <-ctx.Done():
		return nil, Source{}, context.Cause(ctx)
	case c := <-done:
		if c.err != nil {
			return nil, Source{}, fmt.Errorf("read standard input: %w", c.err)
		}
		return c.file, Source{Name: "-", Size: c.size, Hash: sumText(sum)}, nil
	}
}
