package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// hashCommand makes a model version of the command line and of the regular
// files that its words name, relative to dir. Directories and what a program
// loads by itself are not seen: set model.version for those.
func hashCommand(ctx context.Context, command []string, dir string) (string, error) {
	sum := sha256.New()
	for _, word := range command {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(word), word)
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := hashFile(ctx, sum, path); err != nil {
			return "", fmt.Errorf("hash model file: %w", err)
		}
	}
	return "sha256-" + hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func hashFile(ctx context.Context, sum hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := io.Copy(sum, &ctxReader{ctx, f})
	_, _ = fmt.Fprintf(sum, ":%d", size)
	return err
}

// ctxReader stops reading when its context ends: model files are large.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
