//go:build cgo

package onnx

import (
	"os"
	"os/exec"
	"testing"
)

// TestWithoutCgo runs this package's other half: the tests of a build without
// cgo.
func TestWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once more")
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-run", "WithoutCgo|Refuses|TopK", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}
