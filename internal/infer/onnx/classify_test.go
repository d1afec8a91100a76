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
