// Command prepare writes the MNIST test images as PNG files, and their labels as
// CSV, for a run of spotbatch over them:
//
//	go run ./examples/digits/prepare -out out/digits
//
// The images are out/digits/images/00000.png and so on. out/digits/labels.csv
// has the columns id and label; an id is a file's path below the images folder,
// which is the item ID that the publisher gives it.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	data := flags.String("mnist", ".cache/mnist", "folder of the MNIST files")
	out := flags.String("out", "", "folder to write to; it is made where it is missing")
	limit := flags.Int("limit", 0, "write only so many images; 0 means all 10,000")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 || *out == "" || *limit < 0 {
		fmt.Fprintln(stderr, "prepare: takes flags only; -out is required, and -limit cannot be negative")
		return 2
	}
	n, err := prepare(*data, *out, *limit)
	if err != nil {
		fmt.Fprintln(stderr, "prepare:", err)
		return 1
	}
	fmt.Fprintf(stdout, "wrote %d images to %s and their labels to %s\n", n, filepath.Join(*out, "images"), filepath.Join(*out, "labels.csv"))
	return 0
}

func prepare(data, out string, limit int) (int, error) {
	set, err := mnist.Test(data)
	if err != nil {
		return 0, err
	}
	n := set.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	images := filepath.Join(out, "images")
	if err := os.MkdirAll(images, 0o755); err != nil { //nolint:gosec // for everybody to read
		return 0, fmt.Errorf("make folder: %w", err)
	}
	var group errgroup.Group
	writers := runtime.GOMAXPROCS(0)
	for w := range writers {
		group.Go(func() error {
			for i := w; i < n; i += writers {
				if err := writeImage(filepath.Join(images, name(i)), set.Image(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return n, writeLabels(filepath.Join(out, "labels.csv"), set.Labels[:n])
}

func name(i int) string { return fmt.Sprintf("%05d.png", i) }

func writeImage(path string, pixels []byte) error {
	img := &image.Gray{Pix: pixels, Stride: mnist.Side, Rect: image.Rect(0, 0, mnist.Side, mnist.Side)}
	return write(path, func(w io.Writer) error {
		return (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(w, img)
	})
}

func writeLabels(path string, labels []byte) error {
	return write(path, func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, "id,label"); err != nil {
			return err
		}
		for i, label := range labels {
			if _, err := fmt.Fprintf(w, "%s,%d\n", name(i), label); err != nil {
				return err
			}
		}
		return nil
	})
}

func write(path string, content func(w io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	w := bufio.NewWriter(file)
	if err := errors.Join(content(w), w.Flush(), file.Close()); err != nil {
		return fmt.Errorf("write file %s: %w", path, err)
	}
	return nil
}
