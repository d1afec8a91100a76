// Package mnist reads the MNIST images of handwritten digits from the IDX
// files in which they are published.
package mnist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Side is the width and the height of an image in pixels, and Pixels their
// product.
const (
	Side   = 28
	Pixels = Side * Side
)

// The numbers at the start of IDX files: unsigned bytes in three dimensions,
// and in one.
const (
	magicImages = 0x0803
	magicLabels = 0x0801
)

// Set is a number of labelled images.
type Set struct {
	// Images has Pixels bytes for each image, row by row; 0 is paper and 255
	// is ink.
	Images []byte
	// Labels has the digit of each image, 0 to 9.
	Labels []byte
}

// Len is the number of images.
func (s Set) Len() int { return len(s.Labels) }

// Image returns image i; it shares memory with the set.
func (s Set) Image(i int) []byte { return s.Images[i*Pixels : (i+1)*Pixels] }

// Train reads the 60,000 training images from dir.
func Train(dir string) (Set, error) { return read(dir, "train") }

// Test reads the 10,000 test images from dir.
func Test(dir string) (Set, error) { return read(dir, "t10k") }

func read(dir, prefix string) (Set, error) {
	images, err := readIDX(filepath.Join(dir, prefix+"-images-idx3-ubyte"), magicImages, Side, Side)
	if err != nil {
		return Set{}, err
	}
	labels, err := readIDX(filepath.Join(dir, prefix+"-labels-idx1-ubyte"), magicLabels)
	if err != nil {
		return Set{}, err
	}
	if len(images) != len(labels)*Pixels {
		return Set{}, fmt.Errorf("read %s: %d images but %d labels of %s", dir, len(images)/Pixels, len(labels), prefix)
	}
	for i, label := range labels {
		if label > 9 {
			return Set{}, fmt.Errorf("read %s: label %d of %s is %d, not a digit", dir, i, prefix, label)
		}
	}
	return Set{Images: images, Labels: labels}, nil
}

// readIDX returns the bytes after the header of an IDX file: a magic number,
// the number of elements and the dimensions of one, all of 32 bits, big-endian.
func readIDX(path string, magic uint32, dims ...uint32) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read MNIST: %w; run scripts/fetch.sh mnist", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read MNIST: %w", err)
	}
	header := 8 + 4*len(dims)
	if len(data) < header || binary.BigEndian.Uint32(data) != magic {
		return nil, fmt.Errorf("read %s: not an IDX file of the expected kind", path)
	}
	size := int64(binary.BigEndian.Uint32(data[4:]))
	for i, want := range dims {
		if got := binary.BigEndian.Uint32(data[8+4*i:]); got != want {
			return nil, fmt.Errorf("read %s: dimension %d is %d, not %d", path, i+1, got, want)
		}
		size *= int64(want)
	}
	if int64(len(data)-header) != size {
		return nil, fmt.Errorf("read %s: %d bytes of data, but its header says %d", path, len(data)-header, size)
	}
	return data[header:], nil
}
