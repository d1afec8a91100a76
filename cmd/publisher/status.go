package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
)

// watchInterval is the time between two looks of status --watch.
const watchInterval = 2 * time.Second

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use:     "status --run NAME",
		Short:   "Say how far a run is",
		Example: "  publisher status --config configs/local.yaml --run first --watch\n  publisher status --run first -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := textOrJSON(output); err != nil {
				return err
			}
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.status(cmd.Context(), cfg, watch, output)
		},
	}
	a.runFlag(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "look again every 2s until the run is complete")
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) status(ctx context.Context, cfg config.Config, watch bool, output string) error {
	return a.withDatabase(ctx, cfg, func(db *sink.Database) error {
		if watch {
			return a.watch(ctx, db, output)
		}
		s, err := publish.ReadStatus(ctx, db.Runs(), db.Results(), a.runID)
		switch {
		case err != nil:
			return a.noRun(err)
		case output == "json":
			return json.NewEncoder(a.stdout).Encode(s)
		}
		return writeStatus(a.stdout, s)
	})
}

// watch shows the run until it is complete.
func (a *app) watch(ctx context.Context, db *sink.Database, output string) error {
	var view view = &lines{out: a.stdout}
	switch {
	case output == "json":
		view = jsonLines{json.NewEncoder(a.stdout)}
	case isTerminal(a.stdout):
		view = &live{out: a.stdout, width: func() int { return width(a.stdout) }}
	}
	for {
		start := time.Now()
		s, err := publish.ReadStatus(ctx, db.Runs(), db.Results(), a.runID)
		if err != nil {
			return a.noRun(err)
		}
		done := s.Complete || s.State == publish.StateCancelled
		if err := view.show(s, time.Now(), done); err != nil || done {
			return err
		}
		// To add up a large run costs the database something: most of the time
		// it is left alone.
		pause := max(watchInterval, 5*time.Since(start))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// writeStatus writes the table that people read.
func writeStatus(w io.Writer, s publish.Status) error {
	last := "none yet"
	if s.LastResultAt != nil {
		last = s.LastResultAt.Format(time.RFC3339)
	}
	complete := "no"
	if s.Complete {
		complete = "yes"
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, line := range [][2]string{
		{"run", s.RunID},
		{"state", string(s.State)},
		{"published", fmt.Sprint(s.Published)},
		{"ok", fmt.Sprint(s.OK)},
		{"failed", fmt.Sprint(s.Failed)},
		{"outstanding", fmt.Sprint(s.Outstanding)},
		{"complete", complete},
		{"started", s.StartedAt.Format(time.RFC3339)},
		{"last result", last},
		{"items/s", fmt.Sprintf("%.1f", s.ItemsPerSecond)},
		{"ETA", eta(s)},
	} {
		// The writer keeps its first error and returns it from Flush.
		_, _ = fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	for _, f := range s.Failures {
		_, _ = fmt.Fprintf(t, "failed: %s\t%d, such as %s\n", f.Class, f.Items, f.Example)
	}
	return t.Flush()
}

func eta(s publish.Status) string {
	switch {
	case s.Complete:
		return "done"
	case s.ETASeconds == nil:
		return "unknown"
	}
	return time.Duration(*s.ETASeconds * float64(time.Second)).Round(time.Second).String()
}
