// Package onnx runs ONNX models in this process, through ONNX Runtime.
//
// Everything that surrounds the model is plain Go: the codecs that make a
// tensor of a payload (input*.go) and a JSON document of a tensor (output.go),
// the check that model and configuration fit (plan.go), and the life of the
// runner (runner.go, gate.go). Only engine_cgo.go talks to the library, behind
// the interface in engine.go; without cgo, engine_nocgo.go takes its place and
// says so.
//
// Three properties of the library shape the package. Its environment is one for
// the process. A session that is freed while it runs takes the process down. And
// a run cannot be interrupted between two checks of its terminate flag, so Close
// may have to leave a session alone.
package onnx
