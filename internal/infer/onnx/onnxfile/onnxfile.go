// Package onnxfile writes ONNX models: enough of the format for a network of
// standard operators, and nothing for reading. It serves the trainer of the
// digits example, and tests that need a model made to measure.
//
// The bytes follow from the model alone: the same Model gives the same file,
// so that a hash of the file names the model.
package onnxfile

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The versions that files are written for: any ONNX Runtime since 1.10 reads
// them.
const (
	irVersion = 8
	opset     = 13
)

// Type is the type of a tensor's elements, numbered as in TensorProto.
type Type int32

// The element types that a model here can use.
const (
	Float32 Type = 1
	Uint8   Type = 2
	Int32   Type = 6
	Int64   Type = 7
	String  Type = 8
	Bool    Type = 9
	Float16 Type = 10
	Float64 Type = 11
)

// Dynamic is a dimension whose size is only known when the model runs.
const Dynamic int64 = -1

// Model is a graph of operators of the default domain.
type Model struct {
	// Name is the graph's name; the format wants one.
	Name string
	// Doc is for people who open the file.
	Doc     string
	Inputs  []Value
	Outputs []Value
	Weights []Weight
	// Nodes stand in the order in which they can run.
	Nodes []Node
}

// Value is an input or output. Dims may contain Dynamic.
type Value struct {
	Name string
	Type Type
	Dims []int64
}

// Weight is a constant tensor: exactly one of Floats and Ints holds its
// elements, row by row.
type Weight struct {
	Name   string
	Dims   []int64
	Floats []float32
	Ints   []int64
}

// Node is one use of an operator.
type Node struct {
	Op      string
	Inputs  []string
	Outputs []string
	Attrs   []Attr
}

// Attr is an attribute of a node.
type Attr struct {
	name string
	kind int64
	i    int64
	ints []int64
	// graph is nil unless the kind is kindGraph.
	graph *Model
}

// The kinds of attribute, numbered as in AttributeProto.
const (
	kindInt   = 2
	kindGraph = 5
	kindInts  = 7
)

// Int is an attribute that is one integer.
func Int(name string, v int64) Attr { return Attr{name: name, kind: kindInt, i: v} }

// Ints is an attribute that is a list of integers.
func Ints(name string, v ...int64) Attr { return Attr{name: name, kind: kindInts, ints: v} }

// Graph is an attribute that is a graph of its own, such as the body of a Loop.
func Graph(name string, body Model) Attr { return Attr{name: name, kind: kindGraph, graph: &body} }

// Encode returns the model as the bytes of an .onnx file. It refuses weights
// whose elements do not fill their dimensions; whether the graph makes sense is
// for ONNX Runtime to say.
func (m Model) Encode() ([]byte, error) {
	graph, err := m.graph()
	if err != nil {
		return nil, err
	}
	var b message
	b.varint(1, irVersion)
	b.text(2, "spotbatch")
	b.bytes(7, graph)
	var set message
	set.varint(2, opset)
	b.bytes(8, set)
	return b, nil
}

func (m Model) graph() (message, error) {
	var b message
	for _, n := range m.Nodes {
		node, err := n.encode()
		if err != nil {
			return nil, err
		}
		b.bytes(1, node)
	}
	b.text(2, m.Name)
	for _, w := range m.Weights {
		tensor, err := w.encode()
		if err != nil {
			return nil, err
		}
		b.bytes(5, tensor)
	}
	if m.Doc != "" {
		b.text(10, m.Doc)
	}
	for _, v := range m.Inputs {
		b.bytes(11, v.encode())
	}
	for _, v := range m.Outputs {
		b.bytes(12, v.encode())
	}
	return b, nil
}

func (n Node) encode() (message, error) {
	var b message
	for _, name := range n.Inputs {
		b.text(1, name)
	}
	for _, name := range n.Outputs {
		b.text(2, name)
	}
	b.text(4, n.Op)
	for _, a := range n.Attrs {
		attr, err := a.encode()
		if err != nil {
			return nil, err
		}
		b.bytes(5, attr)
	}
	return b, nil
}

func (a Attr) encode() (message, error) {
	var b message
	b.text(1, a.name)
	if a.kind == kindInt {
		b.varint(3, a.i)
	}
	if a.graph != nil {
		graph, err := a.graph.graph()
		if err != nil {
			return nil, err
		}
		b.bytes(6, graph)
	}
	for _, v := range a.ints {
		b.varint(8, v)
	}
	b.varint(20, a.kind)
	return b, nil
}

func (v Value) encode() message {
	var shape message
	for i, d := range v.Dims {
		var dim message
		switch {
		case d != Dynamic:
			dim.varint(1, d)
		case i == 0:
			dim.text(2, "batch")
		default:
			dim.text(2, fmt.Sprintf("dim%d", i))
		}
		shape.bytes(1, dim)
	}
	var tensor message
	tensor.varint(1, int64(v.Type))
	tensor.bytes(2, shape)
	var typ message
	typ.bytes(1, tensor)
	var b message
	b.text(1, v.Name)
	b.bytes(2, typ)
	return b
}

func (w Weight) encode() (message, error) {
	want := int64(1)
	for _, d := range w.Dims {
		want *= d
	}
	typ, got := Float32, len(w.Floats)
	if w.Ints != nil {
		typ, got = Int64, len(w.Ints)
	}
	if int64(got) != want || (w.Floats != nil && w.Ints != nil) {
		return nil, fmt.Errorf("encode weight %q: %d elements do not fill the dimensions %v", w.Name, got, w.Dims)
	}
	raw := make([]byte, 0, 8*got)
	for _, v := range w.Floats {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	for _, v := range w.Ints {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	var b message
	for _, d := range w.Dims {
		b.varint(1, d)
	}
	b.varint(2, int64(typ))
	b.text(8, w.Name)
	b.bytes(9, raw)
	return b, nil
}

// message is a protobuf message under construction.
type message []byte

func (b *message) varint(field protowire.Number, v int64) {
	*b = protowire.AppendTag(*b, field, protowire.VarintType)
	*b = protowire.AppendVarint(*b, uint64(v))
}

func (b *message) bytes(field protowire.Number, v []byte) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendBytes(*b, v)
}

func (b *message) text(field protowire.Number, v string) {
	*b = protowire.AppendTag(*b, field, protowire.BytesType)
	*b = protowire.AppendString(*b, v)
}
