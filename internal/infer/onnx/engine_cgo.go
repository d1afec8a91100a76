//go:build cgo

package onnx

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// openLibrary returns ONNX Runtime from path; empty means where library_cgo.go
// says. Nothing is loaded before it is used.
func openLibrary(path string) (library, error) { return ortLibrary{path: path}, nil }

type ortLibrary struct{ path string }

// inspect makes a session for a moment, since the binding tells inputs and
// outputs in no cheaper way. Without optimisation that takes little more than
// reading the file.
func (l ortLibrary) inspect(cfg config.Model) (inputs, outputs []port, err error) {
	if err := loadLibrary(l.path); err != nil {
		return nil, nil, err
	}
	options, err := sessionOptions(cfg)
	if err != nil {
		return nil, nil, err
	}
	defer options.Destroy() //nolint:errcheck // it fails for nil only
	if err := options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll); err != nil {
		return nil, nil, fmt.Errorf("set up ONNX Runtime: %w", err)
	}
	in, out, err := ort.GetInputOutputInfoWithOptions(cfg.Path, options)
	if err != nil {
		return nil, nil, openError(cfg, err)
	}
	return ports(in), ports(out), nil
}

func (l ortLibrary) open(cfg config.Model, input, output port) (engine, error) {
	if err := loadLibrary(l.path); err != nil {
		return nil, err
	}
	options, err := sessionOptions(cfg)
	if err != nil {
		return nil, err
	}
	defer options.Destroy() //nolint:errcheck // it fails for nil only
	s, err := ort.NewDynamicAdvancedSession(cfg.Path, []string{input.name}, []string{output.name}, options)
	if err != nil {
		return nil, openError(cfg, err)
	}
	return session{s}, nil
}

func openError(cfg config.Model, err error) error {
	if cfg.Device == "cuda" {
		return classifyStart(fmt.Errorf("open model %s on GPU %d: %w; spotbatch does not fall back to the CPU", cfg.Path, cfg.DeviceID, err))
	}
	return worker.Permanent(fmt.Errorf("open model %s: %w", cfg.Path, err))
}

// sessionOptions translates the configuration. The caller destroys the options.
func sessionOptions(cfg config.Model) (*ort.SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("set up ONNX Runtime: %w", err)
	}
	if err := setOptions(options, cfg); err != nil {
		_ = options.Destroy() // it fails for nil only
		return nil, fmt.Errorf("set up ONNX Runtime: %w", err)
	}
	return options, nil
}

func setOptions(options *ort.SessionOptions, cfg config.Model) error {
	if cfg.Threads > 0 {
		if err := options.SetIntraOpNumThreads(cfg.Threads); err != nil {
			return err
		}
	}
	// Threads that spin between two runs take cores from decoding, and from the
	// other workers of the machine; to wake them costs microseconds.
	if err := options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"); err != nil {
		return err
	}
	// A memory pattern is kept for each batch size that was seen. Batches have
	// many sizes here, and the patterns are never given back.
	if err := options.SetMemPattern(false); err != nil {
		return err
	}
	if cfg.Device != "cuda" {
		return nil
	}
	return addCUDA(options, cfg.DeviceID)
}

func addCUDA(options *ort.SessionOptions, device int) error {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return worker.Permanent(fmt.Errorf("model.device: cuda: this ONNX Runtime cannot use CUDA (%w); set %s to a GPU build of it, or model.device to cpu", err, libraryVariable))
	}
	defer cuda.Destroy() //nolint:errcheck // it fails for nil only
	err = cuda.Update(map[string]string{
		"device_id": strconv.Itoa(device),
		// By default the arena doubles, and takes memory that no batch needs.
		"arena_extend_strategy": "kSameAsRequested",
		// By default each new batch size pays for a search of the fastest
		// algorithm, which can take seconds.
		"cudnn_conv_algo_search": "HEURISTIC",
	})
	if err == nil {
		err = options.AppendExecutionProviderCUDA(cuda)
	}
	if err != nil {
		return classifyStart(fmt.Errorf("model.device: cuda: GPU %d cannot be used: %w; check that %s names a GPU build of ONNX Runtime, and check the driver, CUDA and cuDNN, or set model.device to cpu", device, err, libraryVariable))
	}
	return nil
}

func ports(infos []ort.InputOutputInfo) []port {
	list := make([]port, len(infos))
	for i, info := range infos {
		list[i] = port{name: info.Name, elem: elemOf(info), dims: info.Dimensions}
		for j, d := range list[i].dims {
			if d < 0 {
				list[i].dims[j] = dynamic
			}
		}
	}
	return list
}

func elemOf(info ort.InputOutputInfo) elem {
	if info.OrtValueType != ort.ONNXTypeTensor {
		return elem(strings.ToLower(strings.TrimPrefix(info.OrtValueType.String(), "ONNX_TYPE_")))
	}
	switch info.DataType {
	case ort.TensorElementDataTypeFloat:
		return elemFloat32
	case ort.TensorElementDataTypeDouble:
		return elemFloat64
	}
	return elem(strings.ToLower(strings.TrimPrefix(info.DataType.String(), "ONNX_TENSOR_ELEMENT_DATA_TYPE_")))
}

func dataType(e elem) ort.TensorElementDataType {
	switch e {
	case elemFloat32:
		return ort.TensorElementDataTypeFloat
	case elemFloat64:
		return ort.TensorElementDataTypeDouble
	case elemFloat16:
		return ort.TensorElementDataTypeFloat16
	case elemInt64:
		return ort.TensorElementDataTypeInt64
	case elemInt32:
		return ort.TensorElementDataTypeInt32
	case elemUint8:
		return ort.TensorElementDataTypeUint8
	default:
		return ort.TensorElementDataTypeUndefined
	}
}

// session is a loaded model.
type session struct{ s *ort.DynamicAdvancedSession }

func (e session) close() error { return e.s.Destroy() }

func (e session) run(ctx context.Context, in tensor) (result, error) {
	options, err := ort.NewRunOptions()
	if err != nil {
		return result{}, classify(err)
	}
	defer options.Destroy() //nolint:errcheck // it fails for nil only
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		_ = options.Terminate() // fails for freed options only
	})
	defer func() {
		if !stop() {
			<-terminated // the options must not be freed under it
		}
	}()

	// The library keeps the address of the data while the tensor exists.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&in.data[0])
	input, err := ort.NewCustomDataTensor(in.dims, in.data, dataType(in.elem))
	if err != nil {
		return result{}, classify(err)
	}
	defer input.Destroy() //nolint:errcheck // it never fails
	outputs := []ort.Value{nil}
	if err := e.s.RunWithOptions([]ort.Value{input}, outputs, options); err != nil {
		return result{}, classify(err)
	}
	defer outputs[0].Destroy() //nolint:errcheck // the elements are in Go memory of their own
	values, err := numbersOf(outputs[0])
	if err != nil {
		return result{}, worker.Fail(worker.ClassBatchError, err)
	}
	return result{dims: outputs[0].GetShape(), values: values}, nil
}

// numbersOf returns the elements of v. They stay valid when v is destroyed.
func numbersOf(v ort.Value) (numbers, error) {
	switch t := v.(type) {
	case *ort.Tensor[float32]:
		return float32s(t.GetData()), nil
	case *ort.Tensor[float64]:
		return float64s(t.GetData()), nil
	case *ort.Tensor[int64]:
		return integers[int64](t.GetData()), nil
	case *ort.Tensor[int32]:
		return integers[int32](t.GetData()), nil
	case *ort.Tensor[int16]:
		return integers[int16](t.GetData()), nil
	case *ort.Tensor[int8]:
		return integers[int8](t.GetData()), nil
	case *ort.Tensor[uint64]:
		return integers[uint64](t.GetData()), nil
	case *ort.Tensor[uint32]:
		return integers[uint32](t.GetData()), nil
	case *ort.Tensor[uint16]:
		return integers[uint16](t.GetData()), nil
	case *ort.Tensor[uint8]:
		return integers[uint8](t.GetData()), nil
	case *ort.Tensor[bool]:
		return bools(t.GetData()), nil
	default:
		return nil, fmt.Errorf("read output: unexpected kind %s", v.GetONNXType())
	}
}
