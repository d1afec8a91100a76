package onnx

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/onnx/onnxfile"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const root = "../../.."

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		return found[len(found)-1]
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

// fieldConfig is a configuration for the model at path, with items that have
// the model's input in their field x, and raw outputs.
func fieldConfig(path string) config.Model {
	cfg := config.Default().Model
	cfg.Kind, cfg.Path = "onnx", path
	cfg.Input.Codec, cfg.Input.Field = "field", "x"
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
func prepare(tb testing.TB, r *Runner, payloads ...string) []worker.Input {
	tb.Helper()
	batch := make([]worker.Input, 0, len(payloads))
	for i, payload := range payloads {
		in, err := r.Prepare(tb.Context(), newItem(string(rune('a'+i)), payload))
		if err != nil {
			tb.Fatal(err)
		}
		batch = append(batch, in)
	}
	return batch
}

func newItem(id, payload string) item.Item {
	return item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(payload)}
}

// answers lists outputs as text, an error with its class.
func answers(outputs []worker.Output) map[string]string {
	list := map[string]string{}
	for _, out := range outputs {
		list[out.ItemID] = string(out.Value)
		if out.Err != nil {
			list[out.ItemID] = out.Err.Error()
		}
	}
	return list
}
