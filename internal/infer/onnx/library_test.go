//go:build cgo

package onnx

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/onnx/onnxfile"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// Short for models.
const (
	dyn = onnxfile.Dynamic
	f32 = onnxfile.Float32
)

func dims(d ...int64) []int64 { return d }

// unary is a model of one operator from x to y.
func unary(op string, typ onnxfile.Type, in, out []int64, attrs ...onnxfile.Attr) onnxfile.Model {
	return onnxfile.Model{
		Name:    op,
		Inputs:  []onnxfile.Value{{Name: "x", Type: typ, Dims: in}},
		Outputs: []onnxfile.Value{{Name: "y", Type: typ, Dims: out}},
		Nodes:   []onnxfile.Node{{Op: op, Inputs: []string{"x"}, Outputs: []string{"y"}, Attrs: attrs}},
	}
}

func identity(typ onnxfile.Type, d ...int64) onnxfile.Model { return unary("Identity", typ, d, d) }

func TestElementTypes(t *testing.T) {
	tests := []struct {
		name    string
		typ     onnxfile.Type
		payload string
		want    string
	}{
		{"float32 shortest", f32, `{"x":[0.1,-2.5,1e-7,3]}`, `{"y":[0.1,-2.5,1e-07,3]}`},
		{"float64 shortest", onnxfile.Float64, `{"x":[0.1,0.30000000000000004,-1e300,0]}`, `{"y":[0.1,0.30000000000000004,-1e+300,0]}`},
		{"int64 exact", onnxfile.Int64, `{"x":[9007199254740993,-9223372036854775808,0,3.0]}`, `{"y":[9007199254740993,-9223372036854775808,0,3]}`},
		{"int32", onnxfile.Int32, `{"x":[2147483647,-1,0,3e2]}`, `{"y":[2147483647,-1,0,300]}`},
		{"uint8", onnxfile.Uint8, `{"x":[0,1,254,255]}`, `{"y":[0,1,254,255]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, _ := load(t, fieldConfig(writeModel(t, identity(test.typ, dyn, 4))), 4, 1)
			outputs, err := r.Run(t.Context(), prepare(t, r, test.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"a": test.want}, answers(outputs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRowsStayApart(t *testing.T) {
	r, info := load(t, fieldConfig(writeModel(t, unary("Neg", f32, dims(dyn, 2, 2), dims(dyn, 2, 2)))), 8, 1)
	if info.MaxBatch != 0 {
		t.Errorf("max batch of an open model is %d, want 0", info.MaxBatch)
	}
	outputs, err := r.Run(t.Context(), prepare(t, r, `{"x":[[1,2],[3,4]]}`, `{"x":[[5,6],[7,8]]}`, `{"x":[[9,10],[11,12]]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": `{"y":[[-1,-2],[-3,-4]]}`, "b": `{"y":[[-5,-6],[-7,-8]]}`, "c": `{"y":[[-9,-10],[-11,-12]]}`}
	if diff := cmp.Diff(want, answers(outputs)); diff != "" {
		t.Error(diff)
	}
}

func TestFixedBatch(t *testing.T) {
	tests := []struct {
		name              string
		fixed             int64
		configured, limit int
	}{
		{"one", 1, 0, 1},
		{"four", 4, 0, 4},
		{"configuration is lower", 4, 2, 2},
		{"configuration is higher", 4, 9, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := fieldConfig(writeModel(t, unary("Neg", f32, dims(test.fixed, 1), dims(test.fixed, 1))))
			cfg.MaxBatch = test.configured
			r, info := load(t, cfg, 16, 1)
			if info.MaxBatch != test.limit {
				t.Errorf("max batch is %d, want %d", info.MaxBatch, test.limit)
			}
			// Fewer items than the model wants are filled up, and only they answer.
			outputs, err := r.Run(t.Context(), prepare(t, r, `{"x":[7]}`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"a": `{"y":[-7]}`}, answers(outputs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNotANumberFailsItsItemAlone(t *testing.T) {
	r, _ := load(t, fieldConfig(writeModel(t, unary("Reciprocal", f32, dims(dyn, 1), dims(dyn, 1)))), 4, 1)
	outputs, err := r.Run(t.Context(), prepare(t, r, `{"x":2}`, `{"x":0}`, `{"x":[4]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": `{"y":[0.5]}`, "b": `invalid_output: output "y" has the value +Inf, which JSON cannot hold`, "c": `{"y":[0.25]}`}
	if diff := cmp.Diff(want, answers(outputs)); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	picture := func(d ...int64) onnxfile.Model { return identity(f32, d...) }
	two := identity(f32, dyn, 2)
	two.Outputs = append(two.Outputs, onnxfile.Value{Name: "z", Type: f32, Dims: dims(dyn, 2)})
	two.Nodes = append(two.Nodes, onnxfile.Node{Op: "Neg", Inputs: []string{"x"}, Outputs: []string{"z"}})
	sum := identity(f32, dyn, 2)
	sum.Inputs = append(sum.Inputs, onnxfile.Value{Name: "w", Type: f32, Dims: dims(dyn, 2)})
	sum.Nodes[0] = onnxfile.Node{Op: "Add", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}
	image := func(m *config.Model) { m.Input.Codec = "image" }
	topk := func(labels ...string) func(m *config.Model) {
		return func(m *config.Model) { m.Output.Codec, m.Output.Labels = "topk", labels }
	}
	tests := []struct {
		name  string
		model onnxfile.Model
		edit  func(m *config.Model)
		want  string
	}{
		{"wrong name of input", identity(f32, dyn, 2), func(m *config.Model) { m.Input.Name = "z" }, `model.input.name: it has no input "z", but x`},
		{"wrong name of output", identity(f32, dyn, 2), func(m *config.Model) { m.Output.Name = "z" }, `model.output.name: it has no output "z", but y`},
		{"which output", two, nil, "it has 2 outputs; set model.output.name to one of y, z"},
		{"two inputs", sum, nil, "it has 2 inputs (x, w)"},
		{"item of open size", identity(f32, dyn, dyn), nil, "leaves a dimension of the items open"},
		{"text as input", identity(onnxfile.String, dyn, 2), nil, `field cannot fill input "x", string[? 2]`},
		{"half floats as output", identity(onnxfile.Float16, dyn, 2), func(m *config.Model) { m.Input.Codec = "tensor" }, `output "y", float16[? 2], cannot be turned into numbers`},
		{"image into a vector", picture(dyn, 784), image, "image needs an input of 4 dimensions"},
		{"colour into a gray model", picture(dyn, 1, 28, 28), image, "color rgb gives 3 channels"},
		{"wrong layout", picture(dyn, 28, 28, 3), image, "layout is nchw"},
		{"wrong width", picture(dyn, 3, 28, 28), func(m *config.Model) { image(m); m.Input.Image.Width = 32 }, "model.input.image.width: 32, but"},
		{"open height", picture(dyn, 3, dyn, 28), image, "model.input.image.height"},
		{"image into integers", identity(onnxfile.Uint8, dyn, 3, 28, 28), image, "image cannot fill input"},
		{"too few labels", identity(f32, dyn, 3), topk("a", "b"), "there are 2 labels, but output \"y\" has 3 classes"},
		{"topk of a matrix", identity(f32, dyn, 2, 3), topk(), "topk needs a vector"},
		{"output without batch", unary("ReduceMax", f32, dims(dyn, 2), nil, onnxfile.Ints("axes", 0), onnxfile.Int("keepdims", 1)), nil, "its first one must count the items"},
		{"labels file that is not there", identity(f32, dyn, 3), func(m *config.Model) { topk()(m); m.Output.LabelsFile = "none.txt" }, "model.output.labels_file: open none.txt"},
		{"cuda without a GPU", identity(f32, dyn, 3), func(m *config.Model) { m.Device = "cuda" }, "model.device: cuda: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := fieldConfig(writeModel(t, test.model))
			if test.edit != nil {
				test.edit(&cfg)
			}
			refuse(t, cfg, test.want)
		})
	}
}

func TestLoadRefusesFile(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.onnx")
	if err := os.WriteFile(garbage, []byte("this is no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse(t, fieldConfig(filepath.Join(dir, "none.onnx")), "model.path: there is no file "+dir)
	refuse(t, fieldConfig(dir), "is not a file")
	refuse(t, fieldConfig(garbage), "open model "+garbage)
}

// refuse checks that a model cannot be loaded, and that the one line that says
// so contains want.
func refuse(t *testing.T, cfg config.Model, want string) {
	t.Helper()
	cfg.Library = findLibrary(t)
	r, err := New(cfg, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("load: got %q, want one line with %q", err, want)
	}
	if !errors.Is(err, worker.ErrPermanent) {
		t.Errorf("load: to try again is of use after %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestStopDuringRun is field case 3.4: a session that is freed under a run takes
// the process down.
func TestStopDuringRun(t *testing.T) {
	stop := map[string]func(r *Runner, cancel func()) error{
		"close":  func(r *Runner, _ func()) error { return r.Close() },
		"cancel": func(_ *Runner, cancel func()) error { cancel(); return nil },
	}
	path := writeModel(t, counting())
	for name, stop := range stop {
		t.Run(name, func(t *testing.T) {
			r, _ := load(t, fieldConfig(path), 1, 1)
			batch := prepare(t, r, `{"x":1000000000000}`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran := make(chan error, 1)
			go func() {
				_, err := r.Run(ctx, batch)
				ran <- err
			}()
			waitInside(t, r.gate)
			// The library does not say when it has begun.
			<-time.After(100 * time.Millisecond)
			if err := stop(r, cancel); err != nil {
				t.Error(err)
			}
			select {
			case err := <-ran:
				if worker.ClassOf(err, "") != worker.ClassTransient {
					t.Errorf("run: got %v, want a transient error", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("run goes on")
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if _, err := r.Run(t.Context(), batch); !errors.Is(err, ErrClosed) {
				t.Errorf("run after close: got %v, want ErrClosed", err)
			}
		})
	}
}

// waitInside returns when somebody is inside the gate.
func waitInside(t *testing.T, g *gate) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		g.mu.Lock()
		inside := g.inside
		g.mu.Unlock()
		if inside > 0 {
			return
		}
	}
	t.Fatal("nobody came in")
}

func TestRunsAtOnce(t *testing.T) {
	r, _ := load(t, fieldConfig(writeModel(t, unary("Neg", f32, dims(dyn, 1), dims(dyn, 1)))), 4, 4)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				n := 1000*i + j
				outputs, err := r.Run(t.Context(), prepare(t, r, fmt.Sprintf(`{"x":%d}`, n), `{"x":1}`))
				if err != nil {
					t.Error(err)
					return
				}
				want := map[string]string{"a": fmt.Sprintf(`{"y":[-%d]}`, n), "b": `{"y":[-1]}`}
				if n == 0 {
					want["a"] = `{"y":[-0]}`
				}
				if diff := cmp.Diff(want, answers(outputs)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	wg.Wait()
}

// TestBatchSizeDoesNotChangeResults is field case 3.16, with the committed model
// of the example.
func TestBatchSizeDoesNotChangeResults(t *testing.T) {
	cfg := config.Default().Model
	cfg.Kind, cfg.Path = "onnx", root+"/examples/digits/model.onnx"
	cfg.Input.Codec = "tensor"
	r, _ := load(t, cfg, 16, 1)
	row := func(seed int) string {
		var b []byte
		for i := range 784 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32((i*seed)%17)/17))
		}
		return string(b)
	}
	logits := func(n int) []float64 {
		payloads := make([]string, n)
		for i := range payloads {
			payloads[i] = row(i + 3)
		}
		outputs, err := r.Run(t.Context(), prepare(t, r, payloads...))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Logits []float64 }
		if err := json.Unmarshal(outputs[0].Value, &doc); err != nil || len(doc.Logits) != 10 {
			t.Fatalf("output %s: %v", outputs[0].Value, err)
		}
		return doc.Logits
	}
	alone := logits(1)
	for _, n := range []int{2, 3, 8, 16} {
		if diff := cmp.Diff(alone, logits(n), cmpopts.EquateApprox(1e-5, 1e-5)); diff != "" {
			t.Errorf("in a batch of %d: %s", n, diff)
		}
	}
}

// TestMemoryOfSessionsComesBack is field case 3.17.
func TestMemoryOfSessionsComesBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	cfg := fieldConfig(writeModel(t, unary("Neg", f32, dims(dyn, 1<<16), dims(dyn, 1<<16))))
	cfg.Library = findLibrary(t)
	cycle := func() {
		r, err := New(cfg, 16, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		cycle()
	}
	before := resident(t)
	for range 50 {
		cycle()
	}
	// Each cycle uses 4 MiB in the library alone: were it lost, that would be 200.
	if grown := resident(t) - before; grown > 64<<20 {
		t.Errorf("50 sessions left %d MiB behind", grown>>20)
	}
}

// resident is the memory of this process, in bytes, without what Go has freed.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestLibraryNames(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libonnxruntime.so")
	for _, path := range []string{missing, t.TempDir()} {
		_, err := libraryNames(path)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "set ONNXRUNTIME_LIB") {
			t.Errorf("%s: got %v, want an error that names it and says what to do", path, err)
		}
	}
	names, err := libraryNames("")
	if err != nil || len(names) == 0 {
		t.Errorf("got %v, %v, want names for the loader to look for", names, err)
	}
}
