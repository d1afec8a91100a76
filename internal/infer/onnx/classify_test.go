package onnx

import (
	"errors"
	"testing"

	"github.com/spotbatch/spotbatch/internal/worker"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		text string
		want worker.Class
	}{
		{"Error running network: Non-zero status code returned while running MatMul node. Name:'m' Status Message: Failed to allocate memory for requested buffer of size 8589934592", worker.ClassOutOfMemory},
		{"bfc_arena.cc:359 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Available memory of 1024 is smaller than requested bytes of 4096", worker.ClassOutOfMemory},
		{"CUDA failure 2: out of memory ; GPU=0 ; hostname=h ; expr=cudaMalloc((void**)&p, size);", worker.ClassOutOfMemory},
		{"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0", worker.ClassOutOfMemory},
		{"Exception during initialization: std::bad_alloc", worker.ClassOutOfMemory},
		{"CUDA failure 700: an illegal memory access was encountered ; GPU=0", worker.ClassDevice},
		{"CUDA error: device-side assert triggered", worker.ClassDevice},
		{"CUDA failure 719: unspecified launch failure ; GPU=0 ; expr=cudaStreamSynchronize(stream)", worker.ClassDevice},
		{"CUDA error 702", worker.ClassDevice},
		{"CUDA failure 214: uncorrectable ECC error encountered", worker.ClassDevice},
		{"CUDA failure 700: an illegal memory access was encountered; out of memory", worker.ClassDevice},
		{"Got invalid dimensions for input: x for the following indices index: 1 Got: 3 Expected: 2", worker.ClassBatchError},
		{"indices element out of data bounds, idx=700 must be within the inclusive range [-10,9]", worker.ClassBatchError},
		{"CUDA failure 7000: no such number", worker.ClassBatchError},
	}
	for _, test := range tests {
		if got := worker.ClassOf(classify(errors.New(test.text)), ""); got != test.want {
			t.Errorf("%s: got %s, want %s", test.text, got, test.want)
		}
	}
	if err := classify(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// A GPU that is not there is a broken device, whose pod is replaced; a model or
// an installation that is wrong stays so; memory may come back.
func TestClassifyStart(t *testing.T) {
	for _, tt := range []struct {
		text      string
		class     worker.Class
		permanent bool
	}{
		{"CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=h ; expr=cudaSetDevice(info_.device_id);", worker.ClassDevice, false},
		{"CUDA failure 101: invalid device ordinal ; GPU=1", worker.ClassDevice, false},
		{"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=0", worker.ClassDevice, false},
		{"CUDA failure 999: unknown error ; GPU=0", worker.ClassDevice, false},
		{"CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);", "", false},
		{"Load model from m.onnx failed:Protobuf parsing failed.", "", true},
		{"Failed to load shared library libonnxruntime_providers_cuda.so: libcudnn.so.9: cannot open shared object file", "", true},
	} {
		err := classifyStart(errors.New(tt.text))
		if class, permanent := worker.ClassOf(err, ""), errors.Is(err, worker.ErrPermanent); class != tt.class || permanent != tt.permanent {
			t.Errorf("%s: got class %q, permanent %t; want %q, %t", tt.text, class, permanent, tt.class, tt.permanent)
		}
	}
}
