//go:build cgo

package onnx

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
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
	candidates := []string{path}
	if path == "" {
		candidates = searched()
	} else if info, err := os.Stat(path); err != nil || info.IsDir() {
		return fmt.Errorf("load ONNX Runtime: there is no file %s; %s", path, libraryHelp)
	}
	var problems []error
	for _, name := range candidates {
		ort.SetSharedLibraryPath(name)
		err := ort.InitializeEnvironment()
		if err == nil {
			environment.loaded, environment.path = true, path
			return nil
		}
		problems = append(problems, err)
	}
	return fmt.Errorf("load ONNX Runtime: %w; %s", problems[0], libraryHelp)
}

// searched are the names that the loader looks for by itself.
func searched() []string {
	if runtime.GOOS == "darwin" {
		return []string{"libonnxruntime.dylib"}
	}
	return []string{"libonnxruntime.so.1", "libonnxruntime.so"}
}
