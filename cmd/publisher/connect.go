package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
)

func (a *app) logger(cfg config.Config) *slog.Logger {
	return telemetry.NewLogger(a.stderr, cfg.Log, isTerminal(a.stderr))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// getenv reads a variable of the process that run was given.
func (a *app) getenv(name string) string {
	for _, entry := range a.environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// withDatabase opens the database, asks whether the tables are there, and
// closes it after use.
func (a *app) withDatabase(ctx context.Context, cfg config.Config, use func(*sink.Database) error) error {
	db, err := sink.Open(ctx, cfg.Spanner.Database, a.logger(cfg))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ping(ctx); err != nil {
		return err
	}
	return use(db)
}

// withTelemetry runs use with the providers that the configuration asks for,
// and flushes them.
func (a *app) withTelemetry(ctx context.Context, cfg config.Config, log *slog.Logger, use func(*telemetry.Telemetry) error) (err error) {
	tel, err := telemetry.Setup(ctx, cfg.Telemetry, "spotbatch-publisher", version, log)
	if err != nil {
		return err
	}
	defer func() {
		flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Telemetry.FlushTimeout)
		defer cancel()
		if flushErr := tel.Shutdown(flushCtx); flushErr != nil {
			log.Warn("last telemetry not delivered", "error", flushErr)
		}
	}()
	return use(tel)
}

// noRun says what to do about a run that does not exist.
func (a *app) noRun(err error) error {
	if errors.Is(err, publish.ErrNoRun) {
		return fmt.Errorf("run %s: %w; publish it first: publisher publish --run %s SOURCE", a.runID, err, a.runID)
	}
	return err
}
