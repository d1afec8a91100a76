// Command train trains a small network on the MNIST training images and writes
// it as an ONNX file:
//
//	go run ./examples/digits/train
//
// The training is deterministic: every random choice comes from the seed, and
// sums are made in an order that does not depend on the number of cores, so
// that a second training writes the same file, byte for byte.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(stderr)
	data := flags.String("mnist", ".cache/mnist", "folder of the MNIST files")
	out := flags.String("out", "examples/digits/model.onnx", "file to write")
	epochs := flags.Int("epochs", 20, "passes over the training images")
	seed := flags.Uint64("seed", 1, "seed of every random choice")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "goroutines that compute; the result does not depend on it")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 || *epochs < 1 || *workers < 1 {
		fmt.Fprintln(stderr, "train: takes flags only, and at least one epoch and one worker")
		return 2
	}
	if err := train(stdout, *data, *out, *epochs, *seed, *workers); err != nil {
		fmt.Fprintln(stderr, "train:", err)
		return 1
	}
	return 0
}

func train(stdout io.Writer, data, out string, epochs int, seed uint64, workers int) error {
	learn, err := mnist.Train(data)
	if err != nil {
		return err
	}
	test, err := mnist.Test(data)
	if err != nil {
		return err
	}
	start := time.Now()
	t := newTrainer(learn, seed, workers, epochs)
	for epoch := range epochs {
		loss := t.epoch()
		fmt.Fprintf(stdout, "epoch %2d  loss %.4f  %s\n", epoch+1, loss, time.Since(start).Round(time.Second))
	}
	// The test images are looked at once, when nothing can be chosen any more.
	fmt.Fprintf(stdout, "test images labelled right: %.2f %%\n", 100*t.net.accuracy(test))
	file, err := t.net.onnx()
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, file, 0o644); err != nil { //nolint:gosec // a model is for everybody to read
		return fmt.Errorf("write model: %w", err)
	}
	fmt.Fprintf(stdout, "wrote %s, %d bytes\n", out, len(file))
	return nil
}
