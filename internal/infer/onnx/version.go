package onnx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spotbatch/spotbatch/internal/config"
)

// recipe counts changes of this package's own arithmetic: a change of a codec
// that gives other outputs for the same settings raises it, so that stored
// results are not taken for results of the new code.
const recipe = 1

// version names the model together with all that changes its outputs. Where and
// how fast it runs (device, threads, batch size) is not part of it.
func version(ctx context.Context, cfg config.Model, labels []string) (string, error) {
	if cfg.Version != "" {
		return cfg.Version, nil
	}
	sum := sha256.New()
	if err := addFile(ctx, sum, cfg.Path); err != nil {
		return "", err
	}
	// Large models keep their weights beside them, by convention under one of
	// these names.
	for _, suffix := range []string{".data", "_data"} {
		if err := addFile(ctx, sum, cfg.Path+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	settings, err := json.Marshal(settingsOf(cfg, labels))
	if err != nil {
		return "", fmt.Errorf("hash settings: %w", err)
	}
	sum.Write(settings)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// checkFile reports why there is no model at path, or nil.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("model.path: there is no file %s", path)
	case err != nil:
		return fmt.Errorf("model.path: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("model.path: %s is not a file", path)
	}
	return nil
}

// settings are those of the configuration that change outputs. Fields are left
// out while they have no effect, so that a new setting does not rename models
// that do not use it.
type settings struct {
	Recipe            int
	InCodec, InName   string
	Field             string    `json:",omitempty"`
	Width, Height     int       `json:",omitempty"`
	Color, Layout     string    `json:",omitempty"`
	Mean, Std         []float64 `json:",omitempty"`
	OutCodec, OutName string
	K                 int      `json:",omitempty"`
	Softmax           bool     `json:",omitempty"`
	Labels            []string `json:",omitempty"`
}

func settingsOf(cfg config.Model, labels []string) settings {
	s := settings{
		Recipe: recipe, InCodec: cfg.Input.Codec, InName: cfg.Input.Name,
		OutCodec: cfg.Output.Codec, OutName: cfg.Output.Name,
	}
	switch cfg.Input.Codec {
	case codecImage:
		im := cfg.Input.Image
		s.Width, s.Height, s.Color, s.Layout, s.Mean, s.Std = im.Width, im.Height, im.Color, im.Layout, im.Mean, im.Std
	case codecField:
		s.Field = cfg.Input.Field
	}
	if cfg.Output.Codec == codecTopK {
		s.K, s.Softmax, s.Labels = cfg.Output.K, cfg.Output.Softmax, labels
	}
	return s
}

func addFile(ctx context.Context, sum io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("hash model: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	if _, err := io.Copy(sum, &stoppableReader{ctx: ctx, from: file}); err != nil {
		return fmt.Errorf("hash model %s: %w", path, err)
	}
	return nil
}

// stoppableReader ends with its context: models have gigabytes.
type stoppableReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no place for it
	from io.Reader
}

func (r *stoppableReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}
