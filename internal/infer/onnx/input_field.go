package onnx

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// fieldDecoder takes a number, or nested arrays of numbers, out of a JSON
// object.
type fieldDecoder struct {
	field string
	elem  elem
	dims  []int64
}

func (d *fieldDecoder) decode(payload []byte) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(payload, &doc); err != nil {
		return nil, fmt.Errorf("payload is not a JSON object: %w", err)
	}
	raw, ok := doc[d.field]
	if !ok {
		return nil, fmt.Errorf("payload has no field %q", d.field)
	}
	elements := int64(1)
	for _, n := range d.dims {
		elements *= n
	}
	c := cursor{decoder: d, text: raw, out: make([]byte, 0, elements*d.elem.size())}
	dims := d.dims
	if elements == 1 && c.peek() != '[' {
		dims = nil // one number may stand without the brackets around it
	}
	if err := c.value(dims); err != nil {
		return nil, err
	}
	return c.out, nil
}

// cursor walks through JSON text that is known to be valid, and appends the
// numbers that it meets to out.
type cursor struct {
	decoder *fieldDecoder
	text    []byte
	at      int
	// path holds the index in each array that the cursor is inside of.
	path []int64
	out  []byte
}

// peek returns the next character that is not white space; 0 at the end.
func (c *cursor) peek() byte {
	for ; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n':
		default:
			return c.text[c.at]
		}
	}
	return 0
}

// value reads arrays of the given dimensions, or a number when there are none.
func (c *cursor) value(dims []int64) error {
	if len(dims) == 0 {
		return c.number()
	}
	if c.peek() != '[' {
		return c.errorf("want an array of %d, found %s", dims[0], kindOf(c.peek()))
	}
	c.at++
	for i := range dims[0] {
		if c.peek() == ']' {
			return c.errorf("want an array of %d, found one of %d", dims[0], i)
		}
		c.path = append(c.path, i)
		if err := c.value(dims[1:]); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
		if c.peek() == ',' {
			c.at++
			if i == dims[0]-1 {
				return c.errorf("want an array of %d, found a longer one", dims[0])
			}
		}
	}
	if c.peek() != ']' {
		return c.errorf("want an array of %d, found a longer one", dims[0])
	}
	c.at++
	return nil
}

func (c *cursor) number() error {
	if first := c.peek(); first != '-' && (first < '0' || first > '9') {
		return c.errorf("want a number, found %s", kindOf(first))
	}
	start := c.at
	for c.at < len(c.text) && strings.IndexByte("+-.0123456789eE", c.text[c.at]) >= 0 {
		c.at++
	}
	text := string(c.text[start:c.at])
	out, err := appendNumber(c.out, c.decoder.elem, text)
	if err != nil {
		return c.errorf("number %s does not fit %s", text, c.decoder.elem)
	}
	c.out = out
	return nil
}

func (c *cursor) errorf(format string, args ...any) error {
	var path strings.Builder
	for _, i := range c.path {
		fmt.Fprintf(&path, "[%d]", i)
	}
	return fmt.Errorf("field %q%s: %s", c.decoder.field, path.String(), fmt.Sprintf(format, args...))
}

func kindOf(first byte) string {
	switch first {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

var errRange = errors.New("out of range")

// appendNumber appends the number that text is, as an element.
func appendNumber(b []byte, e elem, text string) ([]byte, error) {
	switch e {
	case elemFloat32:
		v, err := strconv.ParseFloat(text, 32)
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v))), err
	case elemFloat64:
		v, err := strconv.ParseFloat(text, 64)
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v)), err
	}
	v, err := parseInteger(text)
	if err != nil {
		return nil, err
	}
	switch {
	case e == elemInt64:
		return binary.LittleEndian.AppendUint64(b, uint64(v)), nil
	case e == elemInt32 && v == int64(int32(v)):
		return binary.LittleEndian.AppendUint32(b, uint32(v)), nil
	case e == elemUint8 && v == int64(uint8(v)):
		return append(b, uint8(v)), nil
	}
	return nil, errRange
}

// parseInteger also takes 3.0 and 3e2, which are the same number to JSON.
func parseInteger(text string) (int64, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	// Above 2^53 a float64 is no longer sure to be the number that was written.
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, errRange
	}
	return int64(v), nil
}
