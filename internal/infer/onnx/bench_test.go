//go:build cgo

package onnx

import (
	"image"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func digitsRunner(b *testing.B) *Runner {
	b.Helper()
	cfg := config.Default().Model
	cfg.Kind, cfg.Path = "onnx", root+"/examples/digits/model.onnx"
	cfg.Input.Image.Color = "gray"
	cfg.Output.Codec, cfg.Output.Softmax = "topk", true
	r, _ := load(b, cfg, 16, 1)
	return r
}

func BenchmarkPrepareDigit(b *testing.B) {
	r := digitsRunner(b)
	it := newItem("a", string(encodePNG(b, image.NewGray(image.Rect(0, 0, 28, 28)))))
	for b.Loop() {
		if _, err := r.Prepare(b.Context(), it); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPreparePhoto(b *testing.B) {
	d := imageFor(b, 224, 224, nil)
	photo := encodeJPEG(b, image.NewNRGBA(image.Rect(0, 0, 1920, 1080)))
	for b.Loop() {
		if _, err := d.decode(photo); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunDigits(b *testing.B) {
	r := digitsRunner(b)
	image := string(encodePNG(b, image.NewGray(image.Rect(0, 0, 28, 28))))
	var batch []worker.Input
	for range 16 {
		batch = append(batch, prepare(b, r, image)...)
	}
	for b.Loop() {
		if _, err := r.Run(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
