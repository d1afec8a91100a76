package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"

	scale "golang.org/x/image/draw"

	"github.com/spotbatch/spotbatch/internal/config"
)

// maxScaled bounds the intermediate image of the good scaler: as wide as the
// input and as high as the payload, at 32 bytes a pixel, so 512 MiB. Only images
// of extreme proportions exceed it.
const maxScaled = 1 << 24

// imageDecoder decodes PNG and JPEG.
//
// Colours with transparency end up over black, gray is luma (ITU-R BT.601) of
// the colours, and a note in a JPEG that it should be shown rotated is ignored.
// Images of another size are scaled, without keeping their proportions.
type imageDecoder struct {
	width, height int
	maxPixels     int64
	nchw          bool
	// table has the element for each value of a pixel, for each channel.
	table [][256]uint32
}

func newImageDecoder(cfg config.Image, in port) ([]int64, decoder, error) {
	d := &imageDecoder{maxPixels: int64(cfg.MaxPixels), nchw: cfg.Layout == "nchw"}
	channels := 3
	if cfg.Color == "gray" {
		channels = 1
	}
	if len(in.dims) != 4 {
		return nil, nil, fmt.Errorf("model.input.codec: image needs an input of 4 dimensions, but input %s has %d", in, len(in.dims))
	}
	c, h, w := in.dims[1], in.dims[2], in.dims[3]
	if !d.nchw {
		h, w, c = in.dims[1], in.dims[2], in.dims[3]
	}
	if c != dynamic && c != int64(channels) {
		return nil, nil, fmt.Errorf("model.input.image: color %s gives %d channels and layout is %s, but input %s has %d there", cfg.Color, channels, cfg.Layout, in, c)
	}
	var err error
	if d.width, err = side("width", cfg.Width, w, in); err != nil {
		return nil, nil, err
	}
	if d.height, err = side("height", cfg.Height, h, in); err != nil {
		return nil, nil, err
	}
	if d.table, err = pixelTable(cfg, channels); err != nil {
		return nil, nil, err
	}
	if d.nchw {
		return []int64{int64(channels), int64(d.height), int64(d.width)}, d, nil
	}
	return []int64{int64(d.height), int64(d.width), int64(channels)}, d, nil
}

// side settles a side's length between the configuration, where 0 is open, and
// the model.
func side(name string, configured int, model int64, in port) (int, error) {
	switch {
	case model == dynamic && configured == 0:
		return 0, fmt.Errorf("model.input.image.%s: input %s leaves it open; set it", name, in)
	case model == dynamic:
		return configured, nil
	case model < 1 || model > math.MaxInt32:
		return 0, fmt.Errorf("input %s has an image %s of %d", in, name, model)
	case configured != 0 && int64(configured) != model:
		return 0, fmt.Errorf("model.input.image.%s: %d, but input %s takes %d", name, configured, in, model)
	}
	return int(model), nil
}

func pixelTable(cfg config.Image, channels int) ([][256]uint32, error) {
	table := make([][256]uint32, channels)
	for c := range table {
		mean, err := channelValue("mean", cfg.Mean, c, channels, 0)
		if err != nil {
			return nil, err
		}
		std, err := channelValue("std", cfg.Std, c, channels, 1)
		if err != nil {
			return nil, err
		}
		if std == 0 {
			return nil, errors.New("model.input.image.std: values are divided by it, so it must not be 0")
		}
		for v := range table[c] {
			table[c][v] = math.Float32bits(float32((float64(v)/255 - mean) / std))
		}
	}
	return table, nil
}

func channelValue(key string, values []float64, c, channels int, fallback float64) (float64, error) {
	switch len(values) {
	case 0:
		return fallback, nil
	case 1:
		return values[0], nil
	case channels:
		return values[c], nil
	}
	return 0, fmt.Errorf("model.input.image.%s: has %d numbers; must have one, or one for each of %d channels", key, len(values), channels)
}

func (d *imageDecoder) decode(payload []byte) ([]byte, error) {
	img, err := d.open(payload)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 4*len(d.table)*d.width*d.height)
	if gray, ok := img.(*image.Gray); ok && len(d.table) == 1 && d.fits(gray) {
		for y := range d.height {
			row := gray.Pix[y*gray.Stride:][:d.width]
			for x, v := range row {
				d.put(out, 0, y*d.width+x, v)
			}
		}
		return out, nil
	}
	pixels := d.resize(img)
	for i := range d.width * d.height {
		p := pixels.Pix[4*i : 4*i+3 : 4*i+3]
		if len(d.table) == 3 {
			d.put(out, 0, i, p[0])
			d.put(out, 1, i, p[1])
			d.put(out, 2, i, p[2])
			continue
		}
		luma, _, _ := color.RGBToYCbCr(p[0], p[1], p[2])
		d.put(out, 0, i, luma)
	}
	return out, nil
}

// put writes the element of channel c of pixel i.
func (d *imageDecoder) put(out []byte, c, i int, v byte) {
	at := i*len(d.table) + c
	if d.nchw {
		at = c*d.width*d.height + i
	}
	binary.LittleEndian.PutUint32(out[4*at:], d.table[c][v])
}

// open decodes the payload, once it is known that it is not too large.
func (d *imageDecoder) open(payload []byte) (image.Image, error) {
	// Named here, and not through the image package's list of formats: what is
	// accepted must not depend on what else is linked into the binary.
	format, readConfig, read := "PNG", png.DecodeConfig, png.Decode
	switch {
	case len(payload) == 0:
		return nil, errors.New("payload is empty; want a PNG or JPEG image")
	case bytes.HasPrefix(payload, []byte("\x89PNG\r\n\x1a\n")):
	case bytes.HasPrefix(payload, []byte("\xff\xd8")):
		format, readConfig, read = "JPEG", jpeg.DecodeConfig, jpeg.Decode
	default:
		return nil, fmt.Errorf("payload is neither PNG nor JPEG; it begins with %q", payload[:min(len(payload), 8)])
	}
	cfg, err := readConfig(bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("decode %s header: %w", format, err)
	}
	if pixels := int64(cfg.Width) * int64(cfg.Height); pixels > d.maxPixels {
		return nil, fmt.Errorf("image of %d x %d pixels is larger than model.input.image.max_pixels, %d", cfg.Width, cfg.Height, d.maxPixels)
	}
	if cfg.Width < 1 || cfg.Height < 1 {
		return nil, fmt.Errorf("image of %d x %d pixels has none", cfg.Width, cfg.Height)
	}
	img, err := read(bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", format, err)
	}
	return img, nil
}

func (d *imageDecoder) fits(img image.Image) bool {
	return img.Bounds().Dx() == d.width && img.Bounds().Dy() == d.height
}

func (d *imageDecoder) resize(img image.Image) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, d.width, d.height))
	from := img.Bounds()
	switch {
	case d.fits(img):
		draw.Draw(out, out.Rect, img, from.Min, draw.Src)
	case d.width > maxScaled/from.Dy():
		// The good scaler would take memory out of all proportion.
		scale.ApproxBiLinear.Scale(out, out.Rect, img, from, draw.Src, nil)
	default:
		scale.BiLinear.Scale(out, out.Rect, img, from, draw.Src, nil)
	}
	return out
}
