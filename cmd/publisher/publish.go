package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/publish/progress"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
)

// sourceHelp is what SOURCE means.
const sourceHelp = `SOURCE is a file of rows (.jsonl, .ndjson, .json with one object a line, .csv with a header), or a
directory, gs://bucket or gs://bucket/prefix, of which each file is an item. Several may be given.
The ID of a row is its field "id"; the ID of a file is its path below the directory. Files whose names
begin with a dot are passed over.`

func (a *app) publishCommand() *cobra.Command {
	var opts dataset.Options
	cmd := &cobra.Command{
		Use:   "publish --run NAME SOURCE...",
		Short: "Publish every item of a dataset",
		Long: "Checks the whole dataset, then publishes every item of it and waits until Pub/Sub has confirmed all.\n" +
			"A publish that was stopped is gone on with by the same command.\n\n" + sourceHelp,
		Example: "  publisher publish --config configs/local.yaml --run first rows.jsonl\n" +
			"  publisher publish --config configs/local.yaml --run photos gs://my-bucket/photos",
		Args: someSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.withDataset(cmd.Context(), args, opts, func(data *dataset.Dataset) error {
				return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
					return a.publish(cmd.Context(), cfg, data, db)
				})
			})
		},
	}
	a.runFlag(cmd)
	idFlag(cmd, &opts)
	return cmd
}

func idFlag(cmd *cobra.Command, opts *dataset.Options) {
	cmd.Flags().StringVar(&opts.IDField, "id-field", "id", "`field` or column with the ID of a row")
}

// withDataset opens the sources and closes them after use.
func (a *app) withDataset(ctx context.Context, sources []string, opts dataset.Options, use func(*dataset.Dataset) error) (err error) {
	data, err := dataset.Open(ctx, sources, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	return use(data)
}

func (a *app) publish(ctx context.Context, cfg config.Config, data *dataset.Dataset, db *sink.Database) error {
	log := a.logger(cfg)
	return a.withTelemetry(ctx, cfg, log, func(tel *telemetry.Telemetry) (err error) {
		client, err := publish.Connect(ctx, cfg.Project, tel.Tracing)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		if err := client.Check(ctx, cfg.PubSub.Topic); err != nil {
			return err
		}
		var show publish.Progress = progress.NewLog(log)
		if isTerminal(a.stderr) {
			show = progress.NewBar(a.stderr)
		}
		topic := client.Topic(cfg.PubSub.Topic, cfg.Publish)
		p, err := publish.New(ctx, topic, cfg.Publish.MaxOutstanding, db.Runs(), show, tel.MeterProvider(), log)
		if err != nil {
			return err
		}
		count, err := p.Run(ctx, a.runID, data)
		if err != nil && ctx.Err() != nil {
			return markedError{err, errIncomplete}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "published %d items as run %s; follow it with: publisher status --run %s --watch\n", count, a.runID, a.runID)
		return err
	})
}
