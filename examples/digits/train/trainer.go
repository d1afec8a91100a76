package main

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
)

const (
	batchSize = 128
	// shards is the number of parts of a batch whose gradients are summed
	// apart, and then in order. It is fixed: were it the number of cores, the
	// rounding of the sums, and so the model, would differ between machines.
	shards = 4
	// maxShift is by how many pixels an image is moved at most, each way and
	// anew in each epoch: the network then sees more than 60,000 images.
	maxShift = 1
)

// The constants of Adam (Kingma and Ba, 2015); the rate falls to 0 along half a
// cosine.
const (
	learningRate = 2e-3
	beta1        = 0.9
	beta2        = 0.999
	epsilon      = 1e-8
)

// trainer holds a training under way. It is for one goroutine, and starts its
// own for each batch.
type trainer struct {
	net     network
	set     mnist.Set
	rng     *rand.Rand
	workers int
	steps   int // in the whole training
	step    int // so far

	grad         [shards]network
	pass         [shards]*pass
	loss         [shards]float64
	first, other []float32 // moments of the gradient
}

// example is an image of a batch and how it is moved.
type example struct{ index, dx, dy int }

func newTrainer(set mnist.Set, seed uint64, workers, epochs int) *trainer {
	t := &trainer{
		net: newNetwork(), set: set, workers: workers,
		rng:   rand.New(rand.NewPCG(seed, 0)),
		steps: epochs * (set.Len() / batchSize),
	}
	t.net.randomise(t.rng)
	for s := range shards {
		t.grad[s], t.pass[s] = newNetwork(), newPass()
	}
	t.first = make([]float32, len(t.net.params))
	t.other = make([]float32, len(t.net.params))
	return t
}

// epoch shows the network each image once, except for those of a last batch
// that is not full, and returns the mean loss.
func (t *trainer) epoch() float64 {
	order := t.rng.Perm(t.set.Len())
	batch := make([]example, batchSize)
	loss, batches := 0.0, t.set.Len()/batchSize
	for b := range batches {
		for i := range batch {
			batch[i] = example{
				index: order[b*batchSize+i],
				dx:    t.rng.IntN(2*maxShift+1) - maxShift,
				dy:    t.rng.IntN(2*maxShift+1) - maxShift,
			}
		}
		loss += t.learn(batch)
	}
	return loss / float64(batches)
}

// learn makes one step along the gradient of batch and returns its mean loss.
func (t *trainer) learn(batch []example) float64 {
	t.parallel(shards, func(s int) {
		size := batchSize / shards
		t.shard(s, batch[s*size:(s+1)*size])
	})
	t.step++
	pieces := min(t.workers, len(t.net.params))
	t.parallel(pieces, func(i int) {
		t.update(i*len(t.net.params)/pieces, (i+1)*len(t.net.params)/pieces)
	})
	loss := 0.0
	for _, l := range t.loss {
		loss += l
	}
	return loss / batchSize
}

// shard sets gradient s to that of its part of the batch.
func (t *trainer) shard(s int, part []example) {
	clear(t.grad[s].params)
	t.loss[s] = 0
	p := t.pass[s]
	for _, ex := range part {
		shift(p.value[0], t.set.Image(ex.index), ex.dx, ex.dy)
		t.net.forward(p)
		t.loss[s] += t.net.backward(p, t.set.Labels[ex.index], t.grad[s])
	}
}

// shift sets out to image, moved by dx and dy pixels and scaled to 0..1.
func shift(out []float32, image []byte, dx, dy int) {
	clear(out)
	for y := max(0, dy); y < min(mnist.Side, mnist.Side+dy); y++ {
		for x := max(0, dx); x < min(mnist.Side, mnist.Side+dx); x++ {
			out[y*mnist.Side+x] = float32(image[(y-dy)*mnist.Side+x-dx]) / 255
		}
	}
}

// update applies Adam to the parameters from..to. Each is computed by itself,
// so that it does not matter who computes which.
func (t *trainer) update(from, to int) {
	rate := learningRate * (1 + math.Cos(math.Pi*float64(t.step)/float64(t.steps))) / 2
	rate *= math.Sqrt(1-math.Pow(beta2, float64(t.step))) / (1 - math.Pow(beta1, float64(t.step)))
	scale := float32(rate)
	for i := from; i < to; i++ {
		g := t.grad[0].params[i]
		for s := 1; s < shards; s++ {
			g += t.grad[s].params[i]
		}
		g /= batchSize
		t.first[i] = float32(beta1*t.first[i]) + float32((1-beta1)*g)
		t.other[i] = float32(beta2*t.other[i]) + float32((1-beta2)*float32(g*g))
		t.net.params[i] -= float32(scale*t.first[i]) / (float32(math.Sqrt(float64(t.other[i]))) + epsilon)
	}
}

// parallel calls do for 0..n-1, at most t.workers at a time, and returns when
// all calls have.
func (t *trainer) parallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	for w := range min(t.workers, n) {
		wg.Go(func() {
			for i := w; i < n; i += t.workers {
				do(i)
			}
		})
	}
	wg.Wait()
}
