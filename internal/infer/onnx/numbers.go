package onnx

import (
	"math"
	"strconv"
)

// numbers are the elements of an output tensor.
type numbers interface {
	len() int
	// float returns element i, rounded where a float64 cannot hold it.
	float(i int) float64
	// appendTo appends element i as JSON text: the shortest that reads back as
	// the same number. NaN and infinities are the caller's to catch.
	appendTo(b []byte, i int) []byte
}

type (
	float32s []float32
	float64s []float64
	bools    []bool
	// integers are elements of any integer type.
	integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64] []T
)

// numberElems are the element types for which there are numbers.
func numberElems() []elem {
	return []elem{
		elemFloat32, elemFloat64, elemInt64, elemInt32, elemInt16, elemInt8,
		elemUint64, elemUint32, elemUint16, elemUint8, elemBool,
	}
}

func (n float32s) len() int                        { return len(n) }
func (n float32s) float(i int) float64             { return float64(n[i]) }
func (n float32s) appendTo(b []byte, i int) []byte { return appendFloat(b, float64(n[i]), 32) }

func (n float64s) len() int                        { return len(n) }
func (n float64s) float(i int) float64             { return n[i] }
func (n float64s) appendTo(b []byte, i int) []byte { return appendFloat(b, n[i], 64) }

func (n integers[T]) len() int            { return len(n) }
func (n integers[T]) float(i int) float64 { return float64(n[i]) }
func (n integers[T]) appendTo(b []byte, i int) []byte {
	if n[i] < 0 {
		return strconv.AppendInt(b, int64(n[i]), 10)
	}
	return strconv.AppendUint(b, uint64(n[i]), 10)
}

func (n bools) len() int { return len(n) }
func (n bools) float(i int) float64 {
	if n[i] {
		return 1
	}
	return 0
}
func (n bools) appendTo(b []byte, i int) []byte { return strconv.AppendBool(b, n[i]) }

// appendFloat writes plain digits where they are few, as other JSON writers do.
func appendFloat(b []byte, v float64, bits int) []byte {
	format := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}
