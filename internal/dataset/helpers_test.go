package dataset

import (
	"context"
	"io"
	"os"
	"testing"
	"time"
)

type (
	ctxType    = context.Context
	readCloser = io.ReadCloser
)

// later is a time that no test's file has of itself.
var later = time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)

// countingCloser counts what is read through it.
type countingCloser struct {
	io.ReadCloser
	n *int64
}

func (c countingCloser) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	*c.n += int64(n)
	return n, err
}

func overwrite(tb testing.TB, file, content string) {
	tb.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}
