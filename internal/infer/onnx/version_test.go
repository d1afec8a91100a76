package onnx

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
)

func TestVersion(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := func() config.Model {
		cfg := config.Default().Model
		cfg.Path = write("model.onnx", "model")
		cfg.Output.Codec = "topk"
		return cfg
	}
	of := func(edit func(m *config.Model)) string {
		cfg := base()
		edit(&cfg)
		labels, err := readLabels(cfg.Output)
		if err != nil {
			t.Fatal(err)
		}
		v, err := version(t.Context(), cfg, labels)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := of(func(*config.Model) {})
	if !regexp.MustCompile(`^sha256:[0-9a-f]{32}$`).MatchString(first) {
		t.Errorf("version is %q", first)
	}
	labels := of(func(m *config.Model) { m.Output.Labels = []string{"a", "b"} })
	same := map[string]func(m *config.Model){
		"nothing":       func(*config.Model) {},
		"another place": func(m *config.Model) { m.Path = write("copy.onnx", "model") },
		"device":        func(m *config.Model) { m.Device, m.DeviceID = "cuda", 1 },
		"threads":       func(m *config.Model) { m.Threads = 3 },
		"batch":         func(m *config.Model) { m.MaxBatch = 3 },
		"library":       func(m *config.Model) { m.Library = "/lib/libonnxruntime.so" },
		"pixel limit":   func(m *config.Model) { m.Input.Image.MaxPixels = 7 },
		"unused field":  func(m *config.Model) { m.Input.Field = "x" },
	}
	for name, edit := range same {
		if got := of(edit); got != first {
			t.Errorf("%s changes the version", name)
		}
	}
	seen := map[string]string{first: "nothing", labels: "labels"}
	other := map[string]func(m *config.Model){
		"model":       func(m *config.Model) { m.Path = write("other.onnx", "model2") },
		"weights":     func(m *config.Model) { m.Path = write("big.onnx", "model"); write("big.onnx.data", "weights") },
		"input codec": func(m *config.Model) { m.Input.Codec = "tensor" },
		"field":       func(m *config.Model) { m.Input.Codec, m.Input.Field = "field", "x" },
		"color":       func(m *config.Model) { m.Input.Image.Color = "gray" },
		"layout":      func(m *config.Model) { m.Input.Image.Layout = "nhwc" },
		"mean":        func(m *config.Model) { m.Input.Image.Mean = []float64{0.5} },
		"std":         func(m *config.Model) { m.Input.Image.Std = []float64{0.5} },
		"width":       func(m *config.Model) { m.Input.Image.Width = 28 },
		"height":      func(m *config.Model) { m.Input.Image.Height = 28 },
		"raw":         func(m *config.Model) { m.Output.Codec = "raw" },
		"k":           func(m *config.Model) { m.Output.K = 2 },
		"softmax":     func(m *config.Model) { m.Output.Softmax = true },
		"input name":  func(m *config.Model) { m.Input.Name = "x" },
		"output name": func(m *config.Model) { m.Output.Name = "x" },
		"label names": func(m *config.Model) { m.Output.Labels = []string{"b", "a"} },
	}
	for name, edit := range other {
		got := of(edit)
		if seen[got] != "" {
			t.Errorf("%s gives the version of %s", name, seen[got])
		}
		seen[got] = name
	}
	// It is the labels that count, not how they were given.
	if got := of(func(m *config.Model) { m.Output.LabelsFile = write("labels.txt", "a\nb\n") }); got != labels {
		t.Error("a file of the same labels changes the version")
	}
	if got := of(func(m *config.Model) { m.Version = "mine" }); got != "mine" {
		t.Errorf("got %q, want what the configuration says", got)
	}
}

func TestVersionStopsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, []byte("model"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := version(ctx, fieldConfig(path), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
