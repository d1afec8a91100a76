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
			if output != "text" && output != "json" {
				return usage(fmt.Errorf("-o: %q: must be one of text, json", output))
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
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`format`: text or json")
	return cmd
}

func (a *app) status(ctx context.Context, cfg config.Config, watch bool, output string) error {
	return a.withDatabase(ctx, cfg, func(db *sink.Database) error {
		for {
			s, err := publish.ReadStatus(ctx, db.Runs(), db.Results(), a.runID)
			if err != nil {
				return a.noRun(err)
			}
			done := !watch || s.Complete || s.State == publish.StateCancelled
			switch {
			case output == "json":
				err = json.NewEncoder(a.stdout).Encode(s)
			case done:
				err = writeStatus(a.stdout, s)
			default:
				_, err = fmt.Fprintf(a.stdout, "%s: ok %d, failed %d, outstanding %d of %d, %.1f items/s, ETA %s\n",
					s.RunID, s.OK, s.Failed, s.Outstanding, s.Published, s.ItemsPerSecond, eta(s))
			}
			if err != nil || done {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(watchInterval):
			}
		}
	})
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
