package onnx

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFieldRefuses(t *testing.T) {
	matrix := &fieldDecoder{field: "x", elem: elemFloat32, dims: []int64{2, 2}}
	one := &fieldDecoder{field: "x", elem: elemFloat32, dims: []int64{1}}
	bytes := &fieldDecoder{field: "x", elem: elemUint8, dims: []int64{1}}
	long := &fieldDecoder{field: "x", elem: elemInt64, dims: nil}
	tests := []struct {
		name    string
		decoder *fieldDecoder
		payload string
		want    string
	}{
		{"empty", matrix, ``, "payload is not a JSON object"},
		{"cut off", matrix, `{"x":[[1,2],[3`, "payload is not a JSON object"},
		{"an array", matrix, `[[1,2],[3,4]]`, "payload is not a JSON object"},
		{"null", matrix, `null`, `payload has no field "x"`},
		{"no such field", matrix, `{"X ":1}`, `payload has no field "x"`},
		{"NaN", matrix, `{"x":[[1,NaN],[3,4]]}`, "payload is not a JSON object"},
		{"a number", matrix, `{"x":1}`, `field "x": want an array of 2, found a number`},
		{"a flat array", matrix, `{"x":[1,2,3,4]}`, `field "x"[0]: want an array of 2, found a number`},
		{"a string", matrix, `{"x":[[1,2],[3,"4"]]}`, `field "x"[1][1]: want a number, found a string`},
		{"null inside", matrix, `{"x":[[1,null],[3,4]]}`, `field "x"[0][1]: want a number, found null`},
		{"a boolean", matrix, `{"x":[[true,2],[3,4]]}`, `field "x"[0][0]: want a number, found a boolean`},
		{"an object", matrix, `{"x":{"0":[1,2]}}`, `field "x": want an array of 2, found an object`},
		{"too deep", matrix, `{"x":[[1,[2]],[3,4]]}`, `field "x"[0][1]: want a number, found an array`},
		{"a short row", matrix, `{"x":[[1,2],[3]]}`, `field "x"[1]: want an array of 2, found one of 1`},
		{"a long row", matrix, `{"x":[[1,2,3],[4,5]]}`, `field "x"[0]: want an array of 2, found a longer one`},
		{"too few rows", matrix, `{"x":[[1,2]]}`, `field "x": want an array of 2, found one of 1`},
		{"too many rows", matrix, `{"x":[[1,2],[3,4],[5,6]]}`, `field "x": want an array of 2, found a longer one`},
		{"no rows", matrix, `{"x":[]}`, `field "x": want an array of 2, found one of 0`},
		{"too large", one, `{"x":1e39}`, `field "x": number 1e39 does not fit float32`},
		{"a string for a number", one, `{"x":"1"}`, `field "x": want a number, found a string`},
		{"a fraction", bytes, `{"x":1.5}`, "number 1.5 does not fit uint8"},
		{"a negative byte", bytes, `{"x":[-1]}`, "number -1 does not fit uint8"},
		{"a large byte", bytes, `{"x":256}`, "number 256 does not fit uint8"},
		{"above int64", long, `{"x":9223372036854775808}`, "does not fit int64"},
		{"not exact", long, `{"x":1e17}`, "does not fit int64"},
		{"an array for a scalar", long, `{"x":[1]}`, "want a number, found an array"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.decoder.decode([]byte(test.payload))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestFieldTakesANumberForAnArrayOfOne(t *testing.T) {
	d := &fieldDecoder{field: "x", elem: elemFloat32, dims: []int64{1, 1}}
	for _, payload := range []string{`{"x":7}`, `{"x":[[7]]}`, `{"x": [ [ 7.0 ] ] , "y":"z"}`, `{"x":1,"x":7}`} {
		got, err := d.decode([]byte(payload))
		if err != nil || math.Float32frombits(binary.LittleEndian.Uint32(got)) != 7 {
			t.Errorf("%s: got %v, %v", payload, got, err)
		}
	}
}

// FuzzField compares with encoding/json, which fills an array of fixed size
// whatever the length of the text's.
func FuzzField(f *testing.F) {
	for _, seed := range []string{
		`{"x":[[1,2],[3,4]]}`, `{"x":[[1,2],[3,4],[5]]}`, `{"x":[[1e38,-0],[0.1,4E-2]]}`, `{"x":[[1,2] , [3, "4"]]}`, "{\"x\":\n[[1,2],\t[3,4]]}",
		`{"x":[[,],[]]}`, `{"x":[[1,2],[3,{}]]}`, `{"x":[[1,2],null]}`, `null`, `{"x":[[1,2],[3,1e999]]}`,
	} {
		f.Add([]byte(seed))
	}
	d := &fieldDecoder{field: "x", elem: elemFloat32, dims: []int64{2, 2}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := d.decode(payload)
		var doc map[string]json.RawMessage
		var rows [][]*float32
		if json.Unmarshal(payload, &doc) != nil || json.Unmarshal(doc["x"], &rows) != nil || len(rows) != 2 || len(rows[0]) != 2 || len(rows[1]) != 2 {
			if err == nil {
				t.Errorf("%q was taken", payload)
			}
			return
		}
		var want []byte
		for _, v := range append(rows[0], rows[1]...) {
			if v == nil {
				if err == nil {
					t.Errorf("%q was taken", payload)
				}
				return
			}
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(*v))
		}
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%q: got %v, %v, want %v", payload, got, err, want)
		}
	})
}

func TestTensor(t *testing.T) {
	in := port{name: "x", elem: elemInt32, dims: []int64{dynamic, 2}}
	d := tensorDecoder{port: in, size: 8}
	if got, err := d.decode([]byte("12345678")); err != nil || string(got) != "12345678" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, payload := range []string{"", "1234567", "123456789"} {
		if _, err := d.decode([]byte(payload)); err == nil || !strings.Contains(err.Error(), `"x", int32[? 2], takes 8 for an item`) {
			t.Errorf("%q: got %v", payload, err)
		}
	}
}
