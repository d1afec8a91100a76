package infer_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer"
	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func TestOpen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	r, err := infer.Open(config.Model{Kind: "command", Command: []string{"/no/such/program"}}, 4, 1, log)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	if _, ok := r.(*command.Runner); !ok {
		t.Errorf("kind command gives a %T", r)
	}
	if _, err := r.Load(t.Context()); !errors.Is(err, worker.ErrPermanent) {
		t.Errorf("Load = %v; want ErrPermanent for a program that does not exist", err)
	}

	_, err = infer.Open(config.Model{Kind: "magic"}, 4, 1, log)
	if want := `model.kind: "magic": must be one of onnx, command`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v; want %q in the error", err, want)
	}
}
