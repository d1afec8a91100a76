package onnx

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/config"
)

func TestTopK(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tests := []struct {
		name    string
		k       int
		softmax bool
		labels  []string
		scores  float32s
		want    string
	}{
		{"numbers as labels", 2, false, nil, float32s{0.1, 0.7, 0.2}, `{"label":"1","score":0.7,"top":[{"label":"1","score":0.7},{"label":"2","score":0.2}]}`},
		{"names as labels", 1, false, []string{"cat", "d\"og"}, float32s{-3, -2}, `{"label":"d\"og","score":-2,"top":[{"label":"d\"og","score":-2}]}`},
		{"k above the classes", 9, false, nil, float32s{1}, `{"label":"0","score":1,"top":[{"label":"0","score":1}]}`},
		{"equal scores keep their order", 3, false, nil, float32s{5, 5, 5}, `{"label":"0","score":5,"top":[{"label":"0","score":5},{"label":"1","score":5},{"label":"2","score":5}]}`},
		{"softmax", 2, true, nil, float32s{0, 0}, `{"label":"0","score":0.5,"top":[{"label":"0","score":0.5},{"label":"1","score":0.5}]}`},
		{"softmax of large scores", 2, true, nil, float32s{1e38, -1e38}, `{"label":"0","score":1,"top":[{"label":"0","score":1},{"label":"1","score":0}]}`},
		{"softmax of a masked class", 2, true, nil, float32s{-inf, 3}, `{"label":"1","score":1,"top":[{"label":"1","score":1},{"label":"0","score":0}]}`},
		{"masked class below k", 1, false, nil, float32s{-inf, 3}, `{"label":"1","score":3,"top":[{"label":"1","score":3}]}`},
		{"infinite score", 1, false, nil, float32s{inf, 3}, "error: the score +Inf for class 0"},
		{"softmax of an infinite score", 1, true, nil, float32s{inf, 3}, "error: the score NaN"},
		{"NaN outside of the top", 1, false, []string{"a", "b"}, float32s{1, nan}, "error: NaN for class b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := &topKEncoder{name: "y", k: test.k, softmax: test.softmax, labels: test.labels}
			// The row stands in the middle of others.
			values := append(append(float32s{100, nan}, test.scores...), 200)
			got, err := e.encode(values, 2, []int64{int64(len(test.scores)), 1})
			text := string(got)
			if err != nil {
				text = err.Error()
			}
			want, fails := strings.CutPrefix(test.want, "error: ")
			if fails != (err != nil) || (fails && !strings.Contains(text, want)) || (!fails && text != want) {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

func TestRaw(t *testing.T) {
	tests := []struct {
		name   string
		values numbers
		dims   []int64
		want   string
	}{
		{"a number", float32s{0.1}, nil, `{"y":0.1}`},
		{"nothing", float32s{}, []int64{0, 2}, `{"y":[]}`},
		{"a matrix", integers[int8]{-1, 2, 3, -4, 5, 6}, []int64{2, 3}, `{"y":[[-1,2,3],[-4,5,6]]}`},
		{"large integers", integers[uint64]{math.MaxUint64}, []int64{1}, `{"y":[18446744073709551615]}`},
		{"booleans", bools{true, false}, []int64{2}, `{"y":[true,false]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := (&rawEncoder{port: "y", name: `"y"`}).encode(test.values, 0, test.dims)
			if err != nil || string(got) != test.want || !json.Valid(got) {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		if got, err := (&rawEncoder{port: "y", name: `"y"`}).encode(float32s{1, v}, 0, []int64{2}); err == nil {
			t.Errorf("%v became %s", v, got)
		}
	}
}

// FuzzFloat checks that what is written is JSON that reads back as the same
// number.
func FuzzFloat(f *testing.F) {
	for _, v := range []float32{0, -0.1, 0.1, 1e-7, 1e21, math.MaxFloat32, math.SmallestNonzeroFloat32} {
		f.Add(math.Float32bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		v := math.Float32frombits(bits)
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		text := float32s{v}.appendTo(nil, 0)
		back, err := strconv.ParseFloat(string(text), 32)
		if err != nil || float32(back) != v || !json.Valid(text) {
			t.Errorf("%v became %s, which is %v (%v)", v, text, back, err)
		}
	})
}

func TestReadLabels(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"plain", "a\nb\n", "a|b"},
		{"no line break at the end", "a\nb", "a|b"},
		{"byte order mark and CRLF", "\ufeffa\r\nb c\r\n", "a|b c"},
		{"empty line", "a\n\nb\n", "error: line 2 "},
		{"empty file", "", "error: has no labels"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "labels.txt")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			labels, err := readLabels(config.Output{Codec: "topk", LabelsFile: path})
			want, fails := strings.CutPrefix(test.want, "error: ")
			if fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want an error with %q", err, want)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(want, "|"), labels); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}
