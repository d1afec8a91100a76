//go:build cgo

package onnx

import (
	"testing"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/infer/onnx/onnxfile"
	"github.com/spotbatch/spotbatch/internal/item"
)

// counting is a model that returns what it is given, after so many rounds of a
// loop.
func counting() onnxfile.Model {
	const i64 = onnxfile.Int64
	scalar := func(name string, typ onnxfile.Type) onnxfile.Value { return onnxfile.Value{Name: name, Type: typ} }
	body := onnxfile.Model{
		Name:    "round",
		Inputs:  []onnxfile.Value{scalar("round", i64), scalar("go", onnxfile.Bool), scalar("before", i64)},
		Outputs: []onnxfile.Value{scalar("on", onnxfile.Bool), scalar("after", i64)},
		Nodes: []onnxfile.Node{
			{Op: "Identity", Inputs: []string{"go"}, Outputs: []string{"on"}},
			{Op: "Add", Inputs: []string{"before", "zero"}, Outputs: []string{"after"}},
		},
	}
	return onnxfile.Model{
		Name:    "counting",
		Inputs:  []onnxfile.Value{{Name: "x", Type: i64, Dims: dims(dyn, 1)}},
		Outputs: []onnxfile.Value{{Name: "y", Type: i64, Dims: dims(dyn, 1)}},
		Weights: []onnxfile.Weight{{Name: "zero", Ints: []int64{0}}},
		Nodes: []onnxfile.Node{
			{Op: "ReduceMax", Inputs: []string{"x"}, Outputs: []string{"rounds"}, Attrs: []onnxfile.Attr{onnxfile.Ints("axes", 0, 1), onnxfile.Int("keepdims", 0)}},
			{Op: "Loop", Inputs: []string{"rounds", "", "zero"}, Outputs: []string{"nothing"}, Attrs: []onnxfile.Attr{onnxfile.Graph("body", body)}},
			{Op: "Add", Inputs: []string{"x", "nothing"}, Outputs: []string{"y"}},
		},
	}
}

func TestConformance(t *testing.T) {
	path := writeModel(t, counting())
	infertest.Run(t, func(t *testing.T) infertest.Bundle {
		t.Helper()
		cfg := fieldConfig(path)
		cfg.Library = findLibrary(t)
		r, err := New(cfg, 8, 3)
		if err != nil {
			t.Fatal(err)
		}
		slow := newItem("slow", `{"x":1000000000000}`)
		return infertest.Bundle{
			Runner:      r,
			Good:        []item.Item{newItem("a", `{"x":3}`), newItem("b", `{"x":[0]}`), newItem("c", `{"x":[-7]}`)},
			Bad:         []item.Item{newItem("d", `{"x":"3"}`), newItem("e", ``), newItem("f", `{"x":[1,2]}`), newItem("g", `{"y":1}`)},
			Slow:        &slow,
			Concurrency: 3,
		}
	})
}
