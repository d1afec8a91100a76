package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/examples/digits/internal/mnist"
)

// writeMNIST writes n test images; image i has i in its pixel i.
func writeMNIST(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	head := func(values ...uint32) []byte {
		var b []byte
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	size := uint32(n)
	images := append(head(0x803, size, mnist.Side, mnist.Side), make([]byte, n*mnist.Pixels)...)
	labels := head(0x801, size)
	for i := range n {
		images[16+i*mnist.Pixels+i] = byte(i)
		labels = append(labels, byte(i%10))
	}
	for name, data := range map[string][]byte{"t10k-images-idx3-ubyte": images, "t10k-labels-idx1-ubyte": labels} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPrepare(t *testing.T) {
	data, out := writeMNIST(t, 13), t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-mnist", data, "-out", out, "-limit", "12"}, &stdout, &stderr); code != 0 {
		t.Fatalf("code %d: %s", code, stderr.String())
	}
	csv, err := os.ReadFile(filepath.Join(out, "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(csv), "\n")
	if len(lines) != 14 || lines[0] != "id,label" || lines[1] != "00000.png,0" || lines[12] != "00011.png,1" || lines[13] != "" {
		t.Errorf("labels.csv is %q", csv)
	}
	files, err := os.ReadDir(filepath.Join(out, "images"))
	if err != nil || len(files) != 12 {
		t.Fatalf("%d images, %v, want 12", len(files), err)
	}
	content, err := os.ReadFile(filepath.Join(out, "images", "00011.png"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	gray, ok := img.(*image.Gray)
	if !ok || len(gray.Pix) != mnist.Pixels || gray.Pix[11] != 11 || gray.Pix[10] != 0 {
		t.Errorf("image is a %T of other pixels", img)
	}
}

func TestUsage(t *testing.T) {
	cut := writeMNIST(t, 3)
	if err := os.Truncate(filepath.Join(cut, "t10k-images-idx3-ubyte"), 100); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-out", t.TempDir(), "-mnist", filepath.Join(t.TempDir(), "none")}, 1, "run scripts/fetch.sh mnist"},
		{[]string{"-out", t.TempDir(), "-mnist", cut}, 1, "84 bytes of data, but its header says 2352"},
		{nil, 2, "-out is required"},
		{[]string{"-out", "x", "-limit", "-1"}, 2, "cannot be negative"},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		if code := run(test.args, &stdout, &stderr); code != test.code || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("prepare %v: code %d, %q; want %d with %q", test.args, code, stderr.String(), test.code, test.want)
		}
	}
}
