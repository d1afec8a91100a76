package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
)

// exportOptions are the flags of export that are no options of the dataset.
type exportOptions struct{ format, status, order string }

func (o exportOptions) validate(sources []string) error {
	switch {
	case !slices.Contains(publish.Formats, publish.Format(o.format)):
		return fmt.Errorf("-o: %q: must be one of jsonl, csv, parquet", o.format)
	case o.status != "" && o.status != "OK" && o.status != "FAILED":
		return fmt.Errorf("--status: %q: must be one of OK, FAILED", o.status)
	case o.order != "" && o.order != "table" && o.order != "dataset":
		return fmt.Errorf("--order: %q: must be one of table, dataset", o.order)
	case o.order == "dataset" && len(sources) == 0:
		return errors.New("--order dataset: no SOURCE; give those that were published, with the same options")
	case o.order != "dataset" && len(sources) > 0:
		return fmt.Errorf("unknown argument %q; a SOURCE is for --order dataset", sources[0])
	}
	return nil
}

func (a *app) exportCommand() *cobra.Command {
	var opts exportOptions
	var data dataset.Options
	cmd := &cobra.Command{
		Use:   "export --run NAME [--order dataset SOURCE...]",
		Short: "Print the results of a run",
		Long: "Prints a line, or a row, for each result to stdout, whatever their number. The order is that of the\n" +
			"table, which looks like none; with --order dataset it is that of the items in the sources, which are\n" +
			"given once more with the options that they were published with.",
		Example: "  publisher export --config configs/local.yaml --run first > results.jsonl\n" +
			"  publisher export --run first --status FAILED -o csv\n" +
			"  publisher export --run first -o parquet --order dataset rows.jsonl > results.parquet",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.validate(args); err != nil {
				return usage(err)
			}
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			if opts.order != "dataset" {
				return a.export(cmd.Context(), cfg, opts, nil)
			}
			data.Stdin = a.stdin
			return a.withKnownDataset(cmd.Context(), args, data, func(source *dataset.Dataset) error {
				return a.export(cmd.Context(), cfg, opts, source)
			})
		},
	}
	a.runFlag(cmd)
	data.Flags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVarP(&opts.format, "output", "o", string(publish.FormatJSONL), "`format`: jsonl, csv or parquet")
	flags.StringVar(&opts.status, "status", "", "only the rows of this `status`: OK or FAILED")
	flags.StringVar(&opts.order, "order", "table", "`order` of the rows: table or dataset")
	for flag, words := range map[string][]string{"output": {"jsonl", "csv", "parquet"}, "status": {"OK", "FAILED"}, "order": {"table", "dataset"}} {
		// An error here is a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// export writes to stdout, in the order of source unless that is nil.
func (a *app) export(ctx context.Context, cfg config.Config, opts exportOptions, source *dataset.Dataset) error {
	if opts.format == string(publish.FormatParquet) && isTerminal(a.stdout) {
		return usage(errors.New("-o parquet: that is nothing for a terminal; send it to a file: > results.parquet"))
	}
	selection := publish.Selection{Status: opts.status}
	if source != nil {
		selection.Order = source
	}
	return a.withDatabase(ctx, cfg, func(db *sink.Database) error {
		_, err := publish.Export(ctx, db.Runs(), db.Results(), a.runID, selection, publish.Format(opts.format), a.stdout)
		return a.noRun(err)
	})
}

func (a *app) verifyCommand() *cobra.Command {
	var opts dataset.Options
	var limit int
	cmd := &cobra.Command{
		Use:   "verify --run NAME SOURCE...",
		Short: "Check that every item of a dataset has its result",
		Long: "Looks up the result of every item of the dataset. It lists the items that have none, those that have\n" +
			"failed, and the results of items that are in no SOURCE. Exit 4 if any are missing, or of no SOURCE.\n\n" + sourceHelp,
		Example: "  publisher verify --config configs/local.yaml --run first rows.jsonl\n" +
			"  publisher verify --run first --limit 1000000 rows.jsonl > problems.txt",
		Args: someSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			opts.Stdin = a.stdin
			return a.withKnownDataset(cmd.Context(), args, opts, func(data *dataset.Dataset) error {
				return a.verify(cmd.Context(), cfg, data, limit)
			})
		},
	}
	a.runFlag(cmd)
	opts.Flags(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 20, "list at most this `number` of each kind")
	return cmd
}

// findings lists what verify finds, of each kind as much as the limit allows.
type findings struct {
	out                      io.Writer
	limit                    int
	missing, failed, unknown int
}

func (f *findings) Missing(e dataset.Entry) {
	f.list(&f.missing, "missing %s (%s)\n", e.ItemID, e.Position)
}

func (f *findings) Failed(e dataset.Entry) {
	f.list(&f.failed, "failed %s (%s)\n", e.ItemID, e.Position)
}

func (f *findings) Unknown(row publish.Row) {
	f.list(&f.unknown, "unknown %s (%s)\n", row.ItemID, row.Status)
}

func (f *findings) list(count *int, format string, args ...any) {
	if *count++; *count <= f.limit {
		fmt.Fprintf(f.out, format, args...)
	}
}

// rest says how many were not listed.
func (f *findings) rest() {
	for _, kind := range []struct {
		name  string
		count int
	}{{"missing", f.missing}, {"failed", f.failed}, {"unknown", f.unknown}} {
		if kind.count > f.limit {
			fmt.Fprintf(f.out, "and %d more %s\n", kind.count-max(f.limit, 0), kind.name)
		}
	}
}

func (a *app) verify(ctx context.Context, cfg config.Config, data *dataset.Dataset, limit int) error {
	return a.withDatabase(ctx, cfg, func(db *sink.Database) error {
		out := bufio.NewWriter(a.stdout)
		list := &findings{out: out, limit: limit}
		v, err := publish.Verify(ctx, db.Runs(), db.Results(), a.runID, data, list)
		if err != nil {
			return a.noRun(errors.Join(err, out.Flush()))
		}
		list.rest()
		fmt.Fprintf(out, "%d items: %d OK, %d FAILED, %d missing\n", v.Items, v.OK, v.Failed, v.Missing)
		if v.Unknown > 0 {
			fmt.Fprintf(out, "%d results of items that are in no SOURCE\n", v.Unknown)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		switch {
		case v.Missing > 0:
			err = fmt.Errorf("%d of %d items have no result; wait until the run is complete: %s", v.Missing, v.Items, a.next("status --run "+a.runID+" --watch"))
		case v.Unknown > 0:
			err = fmt.Errorf("%d results are of items that are in no SOURCE; give all sources of the run, with the options that they were published with", v.Unknown)
		default:
			return nil
		}
		return markedError{err, errIncomplete}
	})
}
