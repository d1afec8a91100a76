package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
)

func (a *app) exportCommand() *cobra.Command {
	var format, status string
	cmd := &cobra.Command{
		Use:     "export --run NAME",
		Short:   "Print the results of a run",
		Example: "  publisher export --config configs/local.yaml --run first > results.jsonl\n  publisher export --run first --status FAILED -o csv",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case format != string(publish.FormatJSONL) && format != string(publish.FormatCSV):
				return usage(fmt.Errorf("-o: %q: must be one of jsonl, csv", format))
			case status != "" && status != "OK" && status != "FAILED":
				return usage(fmt.Errorf("--status: %q: must be one of OK, FAILED", status))
			}
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
				_, err := publish.Export(cmd.Context(), db.Runs(), db.Results(), a.runID, status, publish.Format(format), a.stdout)
				return a.noRun(err)
			})
		},
	}
	a.runFlag(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", string(publish.FormatJSONL), "`format`: jsonl or csv")
	cmd.Flags().StringVar(&status, "status", "", "only the rows of this `status`: OK or FAILED")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var opts dataset.Options
	var limit int
	cmd := &cobra.Command{
		Use:     "verify --run NAME SOURCE...",
		Short:   "Check that every item of a dataset has its result",
		Long:    "Looks up the result of every item of the dataset and lists those that have none; exit 4 if there are any.\n\n" + sourceHelp,
		Example: "  publisher verify --config configs/local.yaml --run first rows.jsonl",
		Args:    someSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.withDataset(cmd.Context(), args, opts, func(data *dataset.Dataset) error {
				return a.verify(cmd.Context(), cfg, data, limit)
			})
		},
	}
	a.runFlag(cmd)
	idFlag(cmd, &opts)
	cmd.Flags().IntVar(&limit, "limit", 20, "list at most this `number` of missing items")
	return cmd
}

func (a *app) verify(ctx context.Context, cfg config.Config, data *dataset.Dataset, limit int) error {
	return a.withDatabase(ctx, cfg, func(db *sink.Database) error {
		listed := 0
		v, err := publish.Verify(ctx, db.Runs(), db.Results(), a.runID, data, func(e dataset.Entry) {
			if listed++; listed <= limit {
				fmt.Fprintf(a.stdout, "missing %s (%s)\n", e.ItemID, e.Position)
			}
		})
		if err != nil {
			return a.noRun(err)
		}
		if listed > limit {
			fmt.Fprintf(a.stdout, "and %d more\n", listed-max(limit, 0))
		}
		fmt.Fprintf(a.stdout, "%d items: %d OK, %d FAILED, %d missing\n", v.Items, v.OK, v.Failed, v.Missing)
		if v.Missing > 0 {
			return markedError{
				fmt.Errorf("%d of %d items have no result; wait until the run is complete: publisher status --run %s --watch", v.Missing, v.Items, a.runID),
				errIncomplete,
			}
		}
		return nil
	})
}
