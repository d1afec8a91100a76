//go:build cgo

package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// libraryVariable names the shared library where the configuration does not.
const libraryVariable = "ONNXRUNTIME_LIB"

const libraryHelp = "set " + libraryVariable + " or model.library to an ONNX Runtime library (libonnxruntime.so) of version 1.24 or later, or run make onnxruntime to fetch one"

// environment is the library's own: there is one in a process, however many
// models it runs. It is never destroyed: that would unload code that a run which
// cannot be stopped may still be in.
var environment struct { //nolint:gochecknoglobals // it stands for a global of the library
	sync.Mutex

	loaded bool
	path   string
}

// loadLibrary makes the library at path ready, once for the process.
func loadLibrary(path string) error {
	if path == "" {
		path = os.Getenv(libraryVariable)
	}
	environment.Lock()
	defer environment.Unlock()
	if environment.loaded {
		if path != environment.path {
			return fmt.Errorf("load ONNX Runtime from %q: this process already uses %q", path, environment.path)
		}
		return nil
	}
	candidates, err := libraryNames(path)
	if err != nil {
		return worker.Permanent(err)
	}
	for _, name := range candidates {
		ort.SetSharedLibraryPath(name)
		// Its own log, in colours on stderr, only repeats the errors that it
		// returns.
		if err = ort.InitializeEnvironment(ort.WithLogLevelFatal()); err == nil {
			environment.loaded, environment.path = true, path
			return nil
		}
	}
	return worker.Permanent(fmt.Errorf("load ONNX Runtime: %w; %s", err, libraryHelp))
}

// libraryNames are the names to give to the loader, in order: path, or those
// that it may find in its own folders.
func libraryNames(path string) ([]string, error) {
	if path != "" {
		if info, err := os.Stat(path); err != nil || info.IsDir() { //nolint:gosec // the operator names files
			return nil, fmt.Errorf("load ONNX Runtime: there is no file %s; %s", path, libraryHelp)
		}
		// The loader would look for a name without a slash in its own folders.
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("load ONNX Runtime from %s: %w", path, err)
		}
		return []string{absolute}, nil
	}
	if runtime.GOOS == "darwin" {
		return []string{"libonnxruntime.dylib"}, nil
	}
	return []string{"libonnxruntime.so.1", "libonnxruntime.so"}, nil
}
