package onnxfile

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields lists the fields of a message with their contents, as far as that can
// be told without knowing the message.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	t.Helper()
	found := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, typ, b[n:])
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		value := b[n : n+size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		found[number] = append(found[number], value)
		b = b[n+size:]
	}
	return found
}

func TestEncode(t *testing.T) {
	m := Model{
		Name:    "g",
		Inputs:  []Value{{Name: "x", Type: Float32, Dims: []int64{Dynamic, 2}}},
		Outputs: []Value{{Name: "y", Type: Float32, Dims: []int64{Dynamic, 2}}},
		Weights: []Weight{{Name: "w", Dims: []int64{2}, Floats: []float32{1, -2}}},
		Nodes:   []Node{{Op: "Add", Inputs: []string{"x", "w"}, Outputs: []string{"y"}, Attrs: []Attr{Ints("a", 1, -1)}}},
	}
	first, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	second, err := m.Encode()
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same model gives other bytes, %v", err)
	}
	graph := fields(t, fields(t, first)[7][0])
	weight := fields(t, graph[5][0])
	if want := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}; !bytes.Equal(weight[9][0], want) {
		t.Errorf("weight is %x, want %x", weight[9][0], want)
	}
	if got := string(fields(t, graph[1][0])[4][0]); got != "Add" {
		t.Errorf("operator is %q", got)
	}
}

func TestEncodeRefuses(t *testing.T) {
	tests := map[string]Weight{
		"too few elements":  {Name: "w", Dims: []int64{3}, Floats: []float32{1}},
		"too many elements": {Name: "w", Dims: nil, Ints: []int64{1, 2}},
		"two kinds":         {Name: "w", Dims: []int64{1}, Ints: []int64{1}, Floats: []float32{1}},
	}
	for name, w := range tests {
		if _, err := (Model{Weights: []Weight{w}}).Encode(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
