package onnx

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/onnx/onnxfile"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const root = "../../.."

// findLibrary returns ONNX Runtime where the tests look for it, or skips the
// test. SPOTBATCH_TEST_REQUIRE_ONNX=1 turns the skip into a failure, so that a
// machine that is meant to have the library cannot silently lose these tests.
func findLibrary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("ONNXRUNTIME_LIB"); path != "" {
		return path
	}
	pattern := root + "/.cache/onnxruntime/*/libonnxruntime.so*"
	if runtime.GOOS == "darwin" {
		pattern = root + "/.cache/onnxruntime/*/libonnxruntime*.dylib"
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	if len(found) > 0 {
		// The newest; the path is made absolute since the loader would search
		// its own folders for a bare name.
		path, err := filepath.Abs(found[len(found)-1])
		if err != nil {
			tb.Fatal(err)
		}
		return path
	}
	const missing = "no ONNX Runtime: set ONNXRUNTIME_LIB, or run scripts/fetch.sh onnxruntime"
	if os.Getenv("SPOTBATCH_TEST_REQUIRE_ONNX") == "1" {
		tb.Fatal(missing)
	}
	tb.Skip(missing)
	return ""
}

// writeModel writes a model to a file that is gone after the test.
func writeModel(tb testing.TB, m onnxfile.Model) string {
	tb.Helper()
	data, err := m.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "model.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// modelConfig is the default configuration for the model at path.
func modelConfig(path string) config.Model {
	cfg := config.Default().Model
	cfg.Kind, cfg.Path = "onnx", path
	return cfg
}

// load returns a loaded runner that is closed after the test.
func load(tb testing.TB, cfg config.Model, maxBatch, concurrency int) (*Runner, worker.Info) {
	tb.Helper()
	cfg.Library = findLibrary(tb)
	r, err := New(cfg, maxBatch, concurrency)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	info, err := r.Load(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return r, info
}

// prepare makes inputs of payloads; their IDs are a, b, c and so on.
func prepare(tb testing.TB, r *Runner, payloads ...[]byte) []worker.Input {
	tb.Helper()
	var batch []worker.Input
	for i, payload := range payloads {
		it := item.Item{Key: item.Key{RunID: "r", ItemID: string(rune('a' + i))}, Data: payload}
		in, err := r.Prepare(tb.Context(), it)
		if err != nil {
			tb.Fatal(err)
		}
		batch = append(batch, in)
	}
	return batch
}
