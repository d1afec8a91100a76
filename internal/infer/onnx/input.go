package onnx

import (
	"fmt"
	"slices"

	"github.com/spotbatch/spotbatch/internal/config"
)

// The names of the codecs in the configuration.
const (
	codecImage  = "image"
	codecField  = "field"
	codecTensor = "tensor"
	codecTopK   = "topk"
	codecRaw    = "raw"
)

// newDecoder returns the decoder that cfg asks for, and the dimensions of one
// item, which the configuration may settle where the model leaves them open.
func newDecoder(cfg config.Input, in port) ([]int64, decoder, error) {
	switch cfg.Codec {
	case codecImage:
		if err := accepts(cfg.Codec, in, elemFloat32); err != nil {
			return nil, nil, err
		}
		return newImageDecoder(cfg.Image, in)
	case codecField:
		if err := accepts(cfg.Codec, in, elemFloat32, elemFloat64, elemInt64, elemInt32, elemUint8); err != nil {
			return nil, nil, err
		}
		dims := in.dims[1:]
		return dims, &fieldDecoder{field: cfg.Field, elem: in.elem, dims: dims}, nil
	case codecTensor:
		if err := accepts(cfg.Codec, in, elemFloat32, elemFloat64, elemFloat16, elemInt64, elemInt32, elemUint8); err != nil {
			return nil, nil, err
		}
		dims := in.dims[1:]
		size, err := rowBytes(in, dims)
		return dims, tensorDecoder{port: in, size: size}, err
	default:
		return nil, nil, fmt.Errorf("model.input.codec: %q: must be one of image, field, tensor", cfg.Codec)
	}
}

func accepts(codec string, in port, elems ...elem) error {
	if !slices.Contains(elems, in.elem) {
		return fmt.Errorf("model.input.codec: %s cannot fill input %s only elements of %v", codec, in, elems)
	}
	return nil
}

// tensorDecoder takes the payload as it is.
type tensorDecoder struct {
	port port
	size int
}

func (d tensorDecoder) decode(payload []byte) ([]byte, error) {
	if len(payload) != d.size {
		return nil, fmt.Errorf("payload has %d bytes, but the model's input %s takes %d for an item", len(payload), d.port, d.size)
	}
	return payload, nil
}
