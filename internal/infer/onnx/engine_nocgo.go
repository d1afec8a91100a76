//go:build !cgo

package onnx

import (
	"errors"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// openLibrary cannot work: the library speaks C.
func openLibrary(string) (library, error) {
	return nil, worker.Permanent(errors.New("model.kind: onnx: this worker was built without cgo, which ONNX Runtime needs; build it with CGO_ENABLED=1 and a C compiler, or use the kind command"))
}
