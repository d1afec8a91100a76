package main

import (
	"math"
	"math/rand/v2"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
	"github.com/spotbatch/spotbatch/internal/infer/onnx/onnxfile"
)

// sizes are those of the input, the two hidden layers and the output.
var sizes = [...]int{mnist.Pixels, 128, 64, 10}

const layers = len(sizes) - 1

// network is a multi-layer perceptron with ReLU between its layers. The weights
// and biases of all layers lie in one slice, so that a gradient, and the state
// of the optimiser, are slices of the same length.
type network struct{ params []float32 }

// weights returns the matrix of layer l, a row for each input.
func (n network) weights(l int) []float32 {
	from := 0
	for i := range l {
		from += (sizes[i] + 1) * sizes[i+1]
	}
	return n.params[from : from+sizes[l]*sizes[l+1]]
}

// bias returns the biases of layer l; they follow its weights.
func (n network) bias(l int) []float32 {
	from := 0
	for i := range l + 1 {
		from += (sizes[i] + 1) * sizes[i+1]
	}
	return n.params[from-sizes[l+1] : from]
}

func newNetwork() network {
	total := 0
	for l := range layers {
		total += (sizes[l] + 1) * sizes[l+1]
	}
	return network{params: make([]float32, total)}
}

// randomise sets the weights as He et al. (2015) propose for ReLU, and the
// biases to 0.
func (n network) randomise(rng *rand.Rand) {
	for l := range layers {
		scale := math.Sqrt(2 / float64(sizes[l]))
		w := n.weights(l)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * scale)
		}
	}
}

// pass is the memory of one image on its way through the network and back.
type pass struct {
	// value[0] is the image, value[l] what layer l-1 makes of it; after the
	// last layer they are the logits.
	value [layers + 1][]float32
	// delta[l] is the loss's derivative by what layer l puts out before ReLU.
	delta [layers][]float32
}

func newPass() *pass {
	p := &pass{}
	for i, size := range sizes {
		p.value[i] = make([]float32, size)
		if i > 0 {
			p.delta[i-1] = make([]float32, size)
		}
	}
	return p
}

// forward computes the logits of p.value[0]. Zeros are skipped, since most
// pixels are paper and about half of the hidden values are cut off by ReLU.
func (n network) forward(p *pass) {
	for l := range layers {
		in, out := p.value[l], p.value[l+1]
		w, width := n.weights(l), sizes[l+1]
		copy(out, n.bias(l))
		for i, v := range in {
			if v != 0 {
				addScaled(out, w[i*width:(i+1)*width], v)
			}
		}
		if l < layers-1 {
			for i, v := range out {
				out[i] = max(v, 0)
			}
		}
	}
}

// backward adds to grad the derivatives of the cross-entropy of the logits in
// p, and returns the cross-entropy.
func (n network) backward(p *pass, label byte, grad network) float64 {
	loss := softmaxLoss(p.value[layers], label, p.delta[layers-1])
	for l := layers - 1; l >= 0; l-- {
		w, g, width := n.weights(l), grad.weights(l), sizes[l+1]
		delta := p.delta[l]
		addScaled(grad.bias(l), delta, 1)
		for i, v := range p.value[l] {
			// Behind ReLU a value of 0 also means a derivative of 0.
			if v != 0 {
				addScaled(g[i*width:(i+1)*width], delta, v)
			}
			if l > 0 {
				p.delta[l-1][i] = 0
				if v != 0 {
					p.delta[l-1][i] = dot(w[i*width:(i+1)*width], delta)
				}
			}
		}
	}
	return loss
}

// softmaxLoss returns the cross-entropy of the logits and sets delta to its
// derivative by them.
func softmaxLoss(logits []float32, label byte, delta []float32) float64 {
	top := float64(logits[argmax(logits)])
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range logits {
		delta[i] = float32(math.Exp(float64(v)-top) / sum)
	}
	delta[label]--
	return math.Log(sum) + top - float64(logits[label])
}

// The products below are converted on their own: that forbids the compiler to
// fuse them with the sums, which it would do on some processors only, and with
// another last digit.

// addScaled adds a times x to y.
func addScaled(y, x []float32, a float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += float32(a * x[i])
	}
}

func dot(x, y []float32) float32 {
	y = y[:len(x)]
	sum := float32(0)
	for i := range x {
		sum += float32(x[i] * y[i])
	}
	return sum
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// accuracy is the share of the images that the network labels right.
func (n network) accuracy(set mnist.Set) float64 {
	p, right := newPass(), 0
	for i := range set.Len() {
		for j, v := range set.Image(i) {
			p.value[0][j] = float32(v) / 255
		}
		n.forward(p)
		if argmax(p.value[layers]) == int(set.Labels[i]) {
			right++
		}
	}
	return float64(right) / float64(set.Len())
}

// onnx returns the network as an ONNX file. Its input is a batch of gray images
// with values from 0 to 1, its output a logit for each digit.
func (n network) onnx() ([]byte, error) {
	m := onnxfile.Model{
		Name:    "digits",
		Doc:     "Labels MNIST digits; made by examples/digits/train of spotbatch.",
		Inputs:  []onnxfile.Value{{Name: "image", Type: onnxfile.Float32, Dims: []int64{onnxfile.Dynamic, 1, mnist.Side, mnist.Side}}},
		Outputs: []onnxfile.Value{{Name: "logits", Type: onnxfile.Float32, Dims: []int64{onnxfile.Dynamic, int64(sizes[layers])}}},
		Nodes:   []onnxfile.Node{{Op: "Flatten", Inputs: []string{"image"}, Outputs: []string{"pixels"}, Attrs: []onnxfile.Attr{onnxfile.Int("axis", 1)}}},
	}
	gemm := [layers]struct{ in, weight, bias, out, relu string }{
		{"pixels", "weight1", "bias1", "sum1", "hidden1"},
		{"hidden1", "weight2", "bias2", "sum2", "hidden2"},
		{"hidden2", "weight3", "bias3", "logits", ""},
	}
	for l, name := range gemm {
		m.Weights = append(m.Weights,
			onnxfile.Weight{Name: name.weight, Dims: []int64{int64(sizes[l]), int64(sizes[l+1])}, Floats: n.weights(l)},
			onnxfile.Weight{Name: name.bias, Dims: []int64{int64(sizes[l+1])}, Floats: n.bias(l)})
		m.Nodes = append(m.Nodes, onnxfile.Node{Op: "Gemm", Inputs: []string{name.in, name.weight, name.bias}, Outputs: []string{name.out}})
		if name.relu != "" {
			m.Nodes = append(m.Nodes, onnxfile.Node{Op: "Relu", Inputs: []string{name.out}, Outputs: []string{name.relu}})
		}
	}
	return m.Encode()
}
