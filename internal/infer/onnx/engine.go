package onnx

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/config"
)

// elem is the type of a tensor's elements.
type elem string

// The element types that are spoken of by name here; the model may use others,
// which are then refused under the name that the library gives them.
const (
	elemFloat32 elem = "float32"
	elemFloat64 elem = "float64"
	elemFloat16 elem = "float16"
	elemInt64   elem = "int64"
	elemInt32   elem = "int32"
	elemInt16   elem = "int16"
	elemInt8    elem = "int8"
	elemUint64  elem = "uint64"
	elemUint32  elem = "uint32"
	elemUint16  elem = "uint16"
	elemUint8   elem = "uint8"
	elemBool    elem = "bool"
)

// size is the number of bytes of one element; 0 when it is not fixed.
func (e elem) size() int64 {
	switch e {
	case elemFloat64, elemInt64, elemUint64:
		return 8
	case elemFloat32, elemInt32, elemUint32:
		return 4
	case elemFloat16, elemInt16, elemUint16:
		return 2
	case elemInt8, elemUint8, elemBool:
		return 1
	default:
		return 0
	}
}

// dynamic is a dimension whose size the model leaves open.
const dynamic int64 = -1

// port is an input or an output of a model.
type port struct {
	name string
	elem elem
	// dims may contain dynamic. The first one counts the items of a batch.
	dims []int64
}

// tensor is a batch of inputs: the elements of all rows, one after the other,
// little-endian, as the library wants them.
type tensor struct {
	elem elem
	dims []int64
	data []byte
}

// result is a batch of outputs.
type result struct {
	dims   []int64
	values numbers
}

// library is ONNX Runtime, as far as it is needed here.
type library interface {
	// inspect returns what the model of cfg takes and gives.
	inspect(cfg config.Model) (inputs, outputs []port, err error)
	// open makes a session of the model of cfg that runs from input to output.
	open(cfg config.Model, input, output port) (engine, error)
}

// engine is a session.
type engine interface {
	// run puts a batch through the model. It returns early when ctx is done, as
	// far as the library allows. It is safe for concurrent use. An error has a
	// class.
	run(ctx context.Context, in tensor) (result, error)
	// close frees the session; no run may be under way.
	close() error
}
