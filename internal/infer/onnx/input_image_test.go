package onnx

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spotbatch/spotbatch/internal/config"
)

// imageFor returns a decoder for an input of w by h pixels.
func imageFor(tb testing.TB, w, h int64, edit func(im *config.Image)) decoder {
	tb.Helper()
	cfg := config.Default().Model.Input.Image
	if edit != nil {
		edit(&cfg)
	}
	channels := int64(3)
	if cfg.Color == "gray" {
		channels = 1
	}
	in := port{name: "x", elem: elemFloat32, dims: []int64{dynamic, channels, h, w}}
	if cfg.Layout == "nhwc" {
		in.dims = []int64{dynamic, h, w, channels}
	}
	_, d, err := newImageDecoder(cfg, in)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func floats(data []byte) []float32 {
	list := make([]float32, len(data)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return list
}

func encodePNG(tb testing.TB, img image.Image) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func encodeJPEG(tb testing.TB, img image.Image) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 100}); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// fill returns an image of one colour.
func fill(w, h int, c color.Color) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, c)
		}
	}
	return img
}

// corners is an image of 2 by 2 pixels: red, green, blue, white.
func corners() *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 2))
	img.Set(0, 0, color.NRGBA{255, 0, 0, 255})
	img.Set(1, 0, color.NRGBA{0, 255, 0, 255})
	img.Set(0, 1, color.NRGBA{0, 0, 255, 255})
	img.Set(1, 1, color.NRGBA{255, 255, 255, 255})
	return img
}

func TestImage(t *testing.T) {
	gray := &image.Gray{Pix: []byte{0, 51, 102, 255}, Stride: 2, Rect: image.Rect(0, 0, 2, 2)}
	deep := image.NewGray16(image.Rect(0, 0, 1, 1))
	deep.SetGray16(0, 0, color.Gray16{Y: 0x8080})
	asGray := func(im *config.Image) { im.Color = "gray" }
	tests := []struct {
		name    string
		w, h    int64
		edit    func(im *config.Image)
		payload []byte
		want    []float32
	}{
		{"channels first", 2, 2, nil, encodePNG(t, corners()), []float32{1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}},
		{"channels last", 2, 2, func(im *config.Image) { im.Layout = "nhwc" }, encodePNG(t, corners()), []float32{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}},
		{"gray", 2, 2, asGray, encodePNG(t, gray), []float32{0, 0.2, 0.4, 1}},
		{"gray as colours", 2, 2, nil, encodePNG(t, gray), []float32{0, 0.2, 0.4, 1, 0, 0.2, 0.4, 1, 0, 0.2, 0.4, 1}},
		{"colours as gray", 2, 2, asGray, encodePNG(t, corners()), []float32{76. / 255, 150. / 255, 29. / 255, 1}},
		{"16 bits", 1, 1, asGray, encodePNG(t, deep), []float32{128. / 255}},
		{"transparent is over black", 1, 1, nil, encodePNG(t, fill(1, 1, color.NRGBA{255, 0, 0, 51})), []float32{0.2, 0, 0}},
		{
			"mean and std", 1, 1, func(im *config.Image) { im.Mean, im.Std = []float64{0.5}, []float64{0.5} },
			encodePNG(t, fill(1, 1, color.NRGBA{255, 0, 51, 255})),
			[]float32{1, -1, -0.6},
		},
		{
			"mean and std for each channel", 1, 1, func(im *config.Image) { im.Mean, im.Std = []float64{0, 0.5, 1}, []float64{1, 2, 4} },
			encodePNG(t, fill(1, 1, color.White)),
			[]float32{1, 0.25, 0},
		},
		{"shrunk", 1, 1, asGray, encodePNG(t, fill(640, 480, color.Gray{51})), []float32{0.2}},
		{"shrunk pixels are a mean", 1, 1, asGray, encodePNG(t, &image.Gray{Pix: []byte{0, 102}, Stride: 2, Rect: image.Rect(0, 0, 2, 1)}), []float32{0.2}},
		{"enlarged", 2, 2, asGray, encodePNG(t, fill(1, 1, color.Gray{51})), []float32{0.2, 0.2, 0.2, 0.2}},
		{"extremely high", 1024, 1, func(im *config.Image) { im.Color = "gray" }, encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 20_000))), make([]float32, 1024)},
		{"JPEG", 8, 8, asGray, encodeJPEG(t, fill(8, 8, color.Gray{51})), slicesRepeat(0.2, 64)},
		{"gray JPEG", 1, 1, nil, encodeJPEG(t, image.NewGray(image.Rect(0, 0, 8, 8))), []float32{0, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := imageFor(t, test.w, test.h, test.edit).decode(test.payload)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, floats(got), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func slicesRepeat(v float32, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// bomb is a PNG that says to have w by h pixels, and has none.
func bomb(w, h uint32) []byte {
	header := binary.BigEndian.AppendUint32([]byte("IHDR"), w)
	header = binary.BigEndian.AppendUint32(header, h)
	header = append(header, 8, 0, 0, 0, 0)
	b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	b = append(b, header...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(header))
}

func TestImageRefuses(t *testing.T) {
	whole := encodePNG(t, corners())
	broken := bytes.Clone(whole)
	broken[len(broken)-20] ^= 0xff
	photo := encodeJPEG(t, fill(64, 64, color.White))
	var animation bytes.Buffer
	if err := gif.Encode(&animation, fill(2, 2, color.White), nil); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		payload []byte
		want    string
	}{
		{"empty", nil, "payload is empty"},
		{"text", []byte("hello"), `payload is neither PNG nor JPEG; it begins with "hello"`},
		{"GIF", animation.Bytes(), "payload is neither PNG nor JPEG"},
		{"signature alone", whole[:8], "decode PNG header"},
		{"cut off", whole[:len(whole)-30], "decode PNG"},
		{"a flipped bit", broken, "decode PNG"},
		{"JPEG signature alone", photo[:2], "decode JPEG header"},
		{"JPEG cut off", photo[:len(photo)/2], "decode JPEG"},
		{"bomb", bomb(100_000, 100_000), "larger than model.input.image.max_pixels, 50000000"},
		{"bomb at the end of the numbers", bomb(math.MaxInt32, math.MaxInt32), "PNG"},
		{"no pixels", bomb(0, 5), "PNG"},
	}
	d := imageFor(t, 2, 2, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := d.decode(test.payload)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func FuzzImage(f *testing.F) {
	whole := encodePNG(f, corners())
	photo := encodeJPEG(f, corners())
	for _, seed := range [][]byte{whole, whole[:40], photo, photo[:100], bomb(9, 9), bomb(1, 1<<30), nil} {
		f.Add(seed)
	}
	d := imageFor(f, 3, 2, func(im *config.Image) { im.MaxPixels = 1 << 16 })
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := d.decode(payload)
		if (err == nil) != (len(got) == 4*3*3*2) {
			t.Errorf("got %d bytes and %v", len(got), err)
		}
		for _, v := range floats(got) {
			if v < 0 || v > 1 {
				t.Errorf("pixel became %v", v)
			}
		}
	})
}
