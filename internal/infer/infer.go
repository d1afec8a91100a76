// Package infer opens the runner that the configuration asks for. Each kind of
// runner is a package of its own below this one.
package infer

import (
	"fmt"
	"log/slog"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/infer/onnx"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// Open makes the runner of cfg.Kind for batches of up to maxBatch items and
// concurrency batches at once. Nothing is loaded yet; the caller closes the
// runner.
func Open(cfg config.Model, maxBatch, concurrency int, log *slog.Logger) (worker.Runner, error) {
	switch cfg.Kind {
	case "command":
		return command.New(cfg, concurrency, log), nil
	case "onnx":
		r, err := onnx.New(cfg, maxBatch, concurrency)
		if err != nil {
			return nil, fmt.Errorf("open runner: %w", err)
		}
		return r, nil
	default:
		return nil, fmt.Errorf("open runner: model.kind: %q: must be one of onnx, command", cfg.Kind)
	}
}
