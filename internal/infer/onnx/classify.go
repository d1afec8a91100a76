package onnx

import (
	"regexp"
	"strings"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// The library tells failures apart by their text alone. The phrases are those of
// ONNX Runtime's allocators and of the error strings of CUDA, cuBLAS and cuDNN.

// outOfMemory are phrases, in lower case, of a batch that did not fit.
func outOfMemory() []string {
	return []string{
		"out of memory",
		"failed to allocate memory",
		"is smaller than requested bytes",
		"cublas_status_alloc_failed",
		"cudnn_status_alloc_failed",
		"cuda_error_out_of_memory",
		"bad_alloc",
		"bad allocation",
	}
}

// brokenDevice are phrases of errors after which every later call of the process
// fails too (CUDA calls them sticky), or of a device that is gone.
func brokenDevice() []string {
	return []string{
		"illegal memory access",
		"device-side assert",
		"unspecified launch failure",
		"illegal instruction was encountered",
		"misaligned address",
		"hardware stack error",
		"launch timed out",
		"uncorrectable ecc error",
		"no cuda-capable device",
		"device is lost",
		"context is destroyed",
	}
}

// stickyCode matches the numbers of the same errors (cudaError_t).
var stickyCode = regexp.MustCompile(`cuda (?:error|failure)[ :]+(?:214|70[029]|71[0-9])\b`)

// classify gives an error of the library its class.
func classify(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ToLower(err.Error())
	class := worker.ClassBatchError
	switch {
	// First, since memory cannot be had from a broken device either.
	case containsAny(text, brokenDevice()) || stickyCode.MatchString(text):
		class = worker.ClassDevice
	case containsAny(text, outOfMemory()):
		class = worker.ClassOutOfMemory
	}
	return worker.Failf(class, "run model: %w", err)
}

// anyCode matches the number of any CUDA error.
var anyCode = regexp.MustCompile(`cuda (?:error|failure)[ :]+[1-9]`)

// classifyStart says what an error met on the way to a GPU means for another
// try. A GPU that CUDA does not find or cannot use is looked for by another
// process, since CUDA does not look twice in one. What else fails is the model
// or the installation, unless it is memory that somebody else may give back.
func classifyStart(err error) error {
	text := strings.ToLower(err.Error())
	switch {
	case containsAny(text, outOfMemory()):
		return err
	case containsAny(text, brokenDevice()) || anyCode.MatchString(text):
		return worker.Fail(worker.ClassDevice, err)
	}
	return worker.Permanent(err)
}

func containsAny(text string, phrases []string) bool {
	for _, p := range phrases {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
