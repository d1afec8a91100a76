// Package digits tests the example: the committed model over the test images, in
// the way that a worker would run it.
package digits

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/onnx"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SPOTBATCH_TEST_REQUIRE_ONNX") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func library(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("ONNXRUNTIME_LIB"); path != "" {
		return path
	}
	found, err := filepath.Glob("../../.cache/onnxruntime/*/libonnxruntime*")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		missing(t, "no ONNX Runtime: set ONNXRUNTIME_LIB, or run scripts/fetch.sh onnxruntime")
	}
	path, err := filepath.Abs(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func testImages(t *testing.T) mnist.Set {
	t.Helper()
	set, err := mnist.Test("../../.cache/mnist")
	if errors.Is(err, fs.ErrNotExist) {
		missing(t, "no MNIST: run scripts/fetch.sh mnist")
	}
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestModelLabelsTestImages(t *testing.T) {
	set := testImages(t)
	cfg, _, err := config.Load("../../configs/local.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Model.Path, cfg.Model.Library = "model.onnx", library(t)
	const size = 100
	r, err := onnx.New(cfg.Model, size, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	right, seen := 0, 0
	for from := 0; from < set.Len(); from += size * sparse {
		right += label(t, r, set, from, size)
		seen += size
	}
	if got := float64(right) / float64(seen); got < 0.98 {
		t.Errorf("labelled %.2f %% of the test images right, want at least 98 %%", 100*got)
	} else {
		t.Logf("labelled %.2f %% of %d test images right", 100*got, seen)
	}
}

// label runs a batch of images and returns how many labels are right.
func label(t *testing.T, r worker.Runner, set mnist.Set, from, size int) int {
	t.Helper()
	want := map[string]string{}
	var batch []worker.Input
	for i := from; i < from+size; i++ {
		id := fmt.Sprintf("%05d.png", i)
		want[id] = fmt.Sprint(set.Labels[i])
		in, err := r.Prepare(t.Context(), item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: "image/png", Data: encode(t, set.Image(i))})
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, in)
	}
	outputs, err := r.Run(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for _, out := range outputs {
		var got struct{ Label string }
		if err := json.Unmarshal(out.Value, &got); err != nil || out.Err != nil {
			t.Fatalf("output of %s: %s: %v, %v", out.ItemID, out.Value, out.Err, err)
		}
		if got.Label == want[out.ItemID] {
			right++
		}
	}
	return right
}

func encode(t *testing.T, pixels []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	img := &image.Gray{Pix: pixels, Stride: mnist.Side, Rect: image.Rect(0, 0, mnist.Side, mnist.Side)}
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
