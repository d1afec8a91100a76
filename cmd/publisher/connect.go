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
	"github.com/spotbatch/spotbatch/internal/publish/progress"
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

// isTerminalReader is isTerminal for what is read.
func isTerminalReader(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is the number of columns of the terminal that w is; 80 when it does not
// say.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// progress shows a person how far a command is, on stderr.
func (a *app) progress(log *slog.Logger) publish.Progress {
	if isTerminal(a.stderr) {
		return progress.NewBar(a.stderr, func() int { return width(a.stderr) })
	}
	return progress.NewLog(log)
}

// next is a command line for a person to type after this one.
func (a *app) next(command string) string {
	if a.file != "" {
		return "publisher " + command + " --config " + a.file
	}
	return "publisher " + command
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
	return a.openDatabase(ctx, cfg, func(db *sink.Database) error {
		if err := db.Ping(ctx); err != nil {
			return err
		}
		return use(db)
	})
}

// openDatabase opens the database and closes it after use.
func (a *app) openDatabase(ctx context.Context, cfg config.Config, use func(*sink.Database) error) error {
	db, err := sink.Open(ctx, cfg.Spanner.Database, a.logger(cfg))
	if err != nil {
		return err
	}
	defer db.Close()
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
		return fmt.Errorf("run %s: %w; publish it first: publisher publish --run %s SOURCE; `publisher runs` lists those that there are", a.runID, err, a.runID)
	}
	return err
}
