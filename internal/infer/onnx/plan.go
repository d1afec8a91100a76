package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// maxItemBytes refuses models whose single input could not be held anyway, and
// keeps the arithmetic of sizes from overflowing.
const maxItemBytes = 1 << 31

// decoder makes the bytes of one row of the input tensor of a payload. It is
// safe for concurrent use. Its errors say what is wrong with the payload.
type decoder interface {
	decode(payload []byte) ([]byte, error)
}

// encoder makes a JSON document of one row of the output tensor.
type encoder interface {
	// check reports whether rows of these dimensions can be encoded; dims may
	// contain dynamic.
	check(dims []int64) error
	// encode encodes the row of values that begins at from.
	encode(values numbers, from int, dims []int64) ([]byte, error)
}

// plan is how items get into a model and out of it. It never changes.
type plan struct {
	input, output port
	// fixed is the batch size that the model insists on; 0 means any.
	fixed   int
	dims    []int64 // of one item's input
	bytes   int     // of one item's input
	decoder decoder
	encoder encoder
}

// newPlan checks the model against the configuration. Its errors name the key to
// change.
func newPlan(cfg config.Model, labels []string, inputs, outputs []port) (*plan, error) {
	if len(inputs) != 1 {
		return nil, fmt.Errorf("it has %d inputs (%s); only models with one input can be run", len(inputs), portNames(inputs))
	}
	in, err := pick("input", inputs, cfg.Input.Name)
	if err != nil {
		return nil, err
	}
	out, err := pick("output", outputs, cfg.Output.Name)
	if err != nil {
		return nil, err
	}
	p := &plan{input: in, output: out}
	if len(in.dims) == 0 {
		return nil, fmt.Errorf("input %s has no dimension for the items of a batch", in)
	}
	if n := in.dims[0]; n != dynamic {
		if n < 1 || n > math.MaxInt32 {
			return nil, fmt.Errorf("input %s takes batches of %d items", in, n)
		}
		p.fixed = int(n)
	}
	if p.dims, p.decoder, err = newDecoder(cfg.Input, in); err != nil {
		return nil, err
	}
	if p.bytes, err = rowBytes(in, p.dims); err != nil {
		return nil, err
	}
	p.encoder, err = newEncoder(cfg.Output, labels, out)
	return p, err
}

// String shows the port in messages: its name, element type and dimensions.
func (p port) String() string {
	dims := make([]string, len(p.dims))
	for i, d := range p.dims {
		dims[i] = "?"
		if d != dynamic {
			dims[i] = fmt.Sprint(d)
		}
	}
	return fmt.Sprintf("%q, %s[%s],", p.name, p.elem, strings.Join(dims, " "))
}

func portNames(ports []port) string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// pick finds the port that is meant: the named one, or the only one.
func pick(kind string, ports []port, name string) (port, error) {
	if name == "" && len(ports) == 1 {
		return ports[0], nil
	}
	if name == "" {
		return port{}, fmt.Errorf("it has %d %ss; set model.%s.name to one of %s", len(ports), kind, kind, portNames(ports))
	}
	i := slices.IndexFunc(ports, func(p port) bool { return p.name == name })
	if i < 0 {
		return port{}, fmt.Errorf("model.%s.name: it has no %s %q, but %s", kind, kind, name, portNames(ports))
	}
	return ports[i], nil
}

func rowBytes(in port, dims []int64) (int, error) {
	size := in.elem.size()
	for _, d := range dims {
		if d < 1 {
			return 0, fmt.Errorf("input %s leaves a dimension of the items open; only the first one, for the batch, may be", in)
		}
		if size > maxItemBytes/d {
			return 0, fmt.Errorf("input %s takes more than 2 GiB for one item", in)
		}
		size *= d
	}
	return int(size), nil
}

// maxBatch is the smaller of the model's own limit and that of the
// configuration, where 0 is none.
func (p *plan) maxBatch(configured int) int {
	if p.fixed == 0 || (configured > 0 && configured < p.fixed) {
		return configured
	}
	return p.fixed
}

// rows is the size of the tensor that a batch of n items needs.
func (p *plan) rows(n int) int {
	if p.fixed > 0 {
		return p.fixed
	}
	return n
}

// zeros is a batch of n items for the warm-up.
func (p *plan) zeros(n int) tensor {
	rows := p.rows(n)
	return tensor{
		elem: p.input.elem,
		dims: append([]int64{int64(rows)}, p.dims...),
		data: make([]byte, rows*p.bytes),
	}
}

// join makes one tensor of a batch. A model of fixed batch size gets zeros in
// the rows that are left.
func (p *plan) join(batch []worker.Input) (tensor, error) {
	if p.fixed > 0 && len(batch) > p.fixed {
		return tensor{}, fmt.Errorf("batch has %d items, but the model takes %d", len(batch), p.fixed)
	}
	t := p.zeros(len(batch))
	for i, in := range batch {
		row, ok := in.Value.([]byte)
		if !ok || len(row) != p.bytes {
			return tensor{}, fmt.Errorf("input of item %q was not prepared by this runner", in.Item.ItemID)
		}
		copy(t.data[i*p.bytes:], row)
	}
	return t, nil
}

// checkResult reports whether out has a row for each row that went in, in a form
// that can be encoded. It sees at the warm-up what the model's own description
// leaves open.
func (p *plan) checkResult(out result, rows int) error {
	if len(out.dims) == 0 || out.dims[0] != int64(rows) {
		return fmt.Errorf("output %q has the dimensions %v for a batch of %d; its first one must count the items", p.output.name, out.dims, rows)
	}
	return p.encoder.check(out.dims[1:])
}

// split makes an output of each row. It leaves out the rows that join added.
func (p *plan) split(batch []worker.Input, out result) []worker.Output {
	width := out.values.len() / int(out.dims[0])
	outputs := make([]worker.Output, len(batch))
	for i, in := range batch {
		value, err := p.encoder.encode(out.values, i*width, out.dims[1:])
		outputs[i] = worker.Output{ItemID: in.Item.ItemID, Value: value, Err: worker.Fail(worker.ClassInvalidOutput, err)}
	}
	return outputs
}
