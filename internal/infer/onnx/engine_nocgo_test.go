//go:build !cgo

package onnx

import (
	"strings"
	"testing"
)

func TestNewWithoutCgo(t *testing.T) {
	_, err := New(fieldConfig("model.onnx"), 1, 1)
	if err == nil || !strings.Contains(err.Error(), "built without cgo") {
		t.Errorf("got %v, want an error that names cgo", err)
	}
}
