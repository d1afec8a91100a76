package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
)

// pictures is a set of n images of some noise in which the label can be seen: a
// bright row of pixels for each digit.
func pictures(n int) mnist.Set {
	rng := rand.New(rand.NewPCG(7, 7))
	set := mnist.Set{Images: make([]byte, n*mnist.Pixels), Labels: make([]byte, n)}
	for i := range n {
		set.Labels[i] = byte(rng.IntN(10))
		image := set.Image(i)
		for range 50 {
			image[rng.IntN(len(image))] = byte(rng.IntN(64))
		}
		row := 3 + 2*int(set.Labels[i])
		for x := range mnist.Side {
			image[row*mnist.Side+x] = 255
		}
	}
	return set
}

func TestTheCoresDoNotChangeTheModel(t *testing.T) {
	set := pictures(2 * batchSize)
	train := func(workers int) []byte {
		tr := newTrainer(set, 1, workers, 1)
		tr.epoch()
		file, err := tr.net.onnx()
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	one := train(1)
	for _, workers := range []int{2, 3} {
		if !bytes.Equal(one, train(workers)) {
			t.Errorf("%d workers train another model than one does", workers)
		}
	}
}

func TestTrainingLearns(t *testing.T) {
	const epochs = 6
	set := pictures(8 * batchSize)
	tr := newTrainer(set, 1, 2, epochs)
	for range epochs {
		tr.epoch()
	}
	if got := tr.net.accuracy(set); got < 0.95 {
		t.Errorf("%.1f %% are right after the training", 100*got)
	}
}

// TestGradient compares derivatives with differences.
func TestGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	net, grad, p := newNetwork(), newNetwork(), newPass()
	net.randomise(rng)
	image := pictures(1).Images
	loss := func() float64 {
		shift(p.value[0], image, 0, 0)
		net.forward(p)
		return softmaxLoss(p.value[layers], 4, make([]float32, 10))
	}
	loss()
	net.backward(p, 4, grad)
	for range 300 {
		i := rng.IntN(len(net.params))
		was := net.params[i]
		const step = 1e-3 // small, so that hardly a ReLU changes sides
		net.params[i] = was + step
		above := loss()
		net.params[i] = was - step
		below := loss()
		net.params[i] = was
		want, got := (above-below)/(2*step), float64(grad.params[i])
		if math.Abs(want-got) > 2e-3+0.02*math.Abs(want) {
			t.Errorf("derivative by parameter %d is %g, but the difference says %g", i, got, want)
		}
	}
}

func TestShift(t *testing.T) {
	image, out := make([]byte, mnist.Pixels), make([]float32, mnist.Pixels)
	image[5*mnist.Side+7] = 255
	image[0] = 255
	shift(out, image, 1, -1)
	for i, v := range out {
		want := float32(0)
		if i == 4*mnist.Side+8 {
			want = 1
		}
		if v != want {
			t.Errorf("pixel %d is %v, want %v", i, v, want)
		}
	}
}

func TestUsage(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	tests := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-mnist", none}, 1, "run scripts/fetch.sh mnist"},
		{[]string{"-epochs", "0"}, 2, "at least one epoch"},
		{[]string{"file"}, 2, "takes flags only"},
		{[]string{"-nonsense"}, 2, "-nonsense"},
		{[]string{"-h"}, 0, "-epochs"},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		if code := run(test.args, &stdout, &stderr); code != test.code || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("train %v: code %d, %q; want %d with %q", test.args, code, stderr.String(), test.code, test.want)
		}
	}
}
