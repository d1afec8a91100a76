package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"path/filepath"

	"github.com/spotbatch/spotbatch/internal/checkpoint"
	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/publish"
)

// withState opens what keeps how far the publish of the run is, and closes it
// after use. A place that the user has not asked for and that cannot be used
// is no reason not to publish.
func (a *app) withState(ctx context.Context, cfg config.Config, place string, log *slog.Logger, use func(publish.Checkpoint) error) (err error) {
	asked := place != ""
	if !asked {
		place, err = a.cacheDir()
	}
	var state *checkpoint.State
	if err == nil {
		// Two databases may have runs of the same name.
		name := fmt.Sprintf("%s-%08x", a.runID, crc32.ChecksumIEEE([]byte(cfg.Spanner.Database)))
		state, err = checkpoint.Open(ctx, place, name, log)
	}
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("run %s is being published already: %w; wait for it, or stop it first", a.runID, err)
	case err != nil && asked:
		return fmt.Errorf("%w; give --state another directory or gs://bucket/prefix", err)
	case err != nil:
		log.Warn("how far the publish is will not be kept, and one that is interrupted begins anew; give --state a directory or gs://bucket/prefix", "error", err)
		return use(publish.NoCheckpoint{})
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	err = use(state)
	if stop, is := errors.AsType[*publish.Stopped](err); is && stop.Published > 0 {
		fmt.Fprintf(a.stderr, "publisher: how far it is, is kept in %s\n", state.Where())
	}
	return err
}

// cacheDir is where states are when nobody says otherwise.
func (a *app) cacheDir() (string, error) {
	for _, place := range []struct{ variable, below string }{{"XDG_CACHE_HOME", ""}, {"HOME", ".cache"}, {"LocalAppData", ""}} {
		if dir := a.getenv(place.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, place.below, "spotbatch", "publish"), nil
		}
	}
	return "", errors.New("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set")
}
