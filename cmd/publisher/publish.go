package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/publish/progress"
	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
)

// sourceHelp is what SOURCE means.
const sourceHelp = `SOURCE is a file of rows (.csv, .tsv, .jsonl, .parquet, .txt and more, see --format), or a directory, a
glob, gs://bucket or gs://bucket/prefix, of which each file is an item. Several may be given. The ID of a
row is its field "id", the ID of a file is its path, unless --id says otherwise.`

// publishOptions are the flags of publish that are no options of the dataset.
type publishOptions struct {
	dryRun bool
	retry  string
	rate   float64
	state  string
}

func (a *app) publishCommand() *cobra.Command {
	var data dataset.Options
	var opts publishOptions
	cmd := &cobra.Command{
		Use:   "publish --run NAME SOURCE...",
		Short: "Publish every item of a dataset",
		Long: "Checks the whole dataset, then publishes every item of it and waits until Pub/Sub has confirmed all.\n\n" +
			"How far it is, is kept in --state, once a second. A publish that was stopped or killed is gone on with by\n" +
			"the same command: what was confirmed in the last second, and what was on its way, is published again, and\n" +
			"workers notice. A SOURCE that has changed since is refused. SIGTERM stops within ten seconds, with exit\n" +
			"code 0.\n\n" + sourceHelp,
		Example: "  publisher publish --config configs/local.yaml --run first rows.jsonl\n" +
			"  publisher publish --run photos gs://my-bucket/photos\n" +
			"  publisher publish --run first --dry-run rows.jsonl\n" +
			"  publisher publish --run first --retry failed rows.jsonl\n" +
			"  publisher publish --run first --rate 500 --state gs://my-bucket/state rows.jsonl",
		Args: someSources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.validate(); err != nil {
				return usage(err)
			}
			data.Stdin = a.stdin
			if opts.dryRun {
				return a.dryRun(cmd, args, data)
			}
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			open := a.withDataset
			if opts.retry != "" {
				open = a.withKnownDataset
			}
			return open(cmd.Context(), args, data, func(source *dataset.Dataset) error {
				return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
					return a.publish(cmd.Context(), cfg, source, data.Shape(), db, opts)
				})
			})
		},
	}
	a.runFlag(cmd)
	data.Flags(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&opts.dryRun, "dry-run", false, "read everything, publish nothing, and print the first messages and all counts")
	flags.StringVar(&opts.retry, "retry", "", "publish again only the items whose row is `failed`, or missing")
	flags.Float64Var(&opts.rate, "rate", 0, "publish at most this `number` of items a second; 0: as fast as it goes")
	flags.Int("max-outstanding", 0, "`number` of messages that may be unconfirmed; wins over publish.max_outstanding")
	flags.StringVar(&opts.state, "state", "", "`directory` or gs://bucket/prefix that keeps how far the publish is (default: spotbatch in the user's cache directory)")
	// An error here is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("retry", cobra.FixedCompletions([]string{"failed", "missing"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o publishOptions) validate() error {
	switch {
	case o.retry != "" && o.retry != string(publish.RetryFailed) && o.retry != string(publish.RetryMissing):
		return fmt.Errorf("--retry: %q: must be one of failed, missing", o.retry)
	case o.rate < 0:
		return fmt.Errorf("--rate: %g: must be 0 or more", o.rate)
	case o.retry != "" && o.dryRun:
		return errors.New("--dry-run reads the dataset alone, and --retry asks for rows: give one of them")
	}
	return nil
}

// withDataset opens the sources and closes them after use.
func (a *app) withDataset(ctx context.Context, sources []string, opts dataset.Options, use func(*dataset.Dataset) error) (err error) {
	if err := opts.Validate(); err != nil {
		return usage(err)
	}
	data, err := dataset.Open(ctx, sources, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	return use(data)
}

// withKnownDataset is withDataset for a dataset that was published before:
// which of its items are duplicates to leave out must be known before it is
// read, and what is left out was written down then.
func (a *app) withKnownDataset(ctx context.Context, sources []string, opts dataset.Options, use func(*dataset.Dataset) error) error {
	opts.Rejects = ""
	return a.withDataset(ctx, sources, opts, func(data *dataset.Dataset) error {
		if opts.OnDuplicate == dataset.SkipDuplicates {
			if _, err := data.Check(ctx, func(dataset.Counts) {}); err != nil {
				return err
			}
		}
		return use(data)
	})
}

func (a *app) publish(ctx context.Context, cfg config.Config, data *dataset.Dataset, shape string, db *sink.Database, opts publishOptions) error {
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
		topic := client.Topic(cfg.PubSub.Topic, cfg.Publish)
		limits := publish.Config{Window: cfg.Publish.MaxOutstanding, Rate: opts.rate}
		p, err := publish.New(ctx, limits, topic, db.Runs(), a.progress(log), tel.MeterProvider(), log)
		if err != nil {
			return err
		}
		if opts.retry != "" {
			return a.retry(ctx, p, data, db, publish.RetryOf(opts.retry))
		}
		return a.withState(ctx, cfg, opts.state, log, func(state publish.Checkpoint) error {
			summary, err := p.Run(ctx, a.runID, data, shape, state)
			if err != nil {
				return stopped(err)
			}
			a.summary(summary)
			return nil
		})
	})
}

// stopped marks a stop, by what has asked for it.
func stopped(err error) error {
	stop, is := err.(*publish.Stopped) //nolint:errorlint // joined with another error it is no good end
	if !is {
		return err
	}
	if received, is := errors.AsType[signals.Received](stop.Cause); is && received.Signal == syscall.SIGTERM {
		return markedError{err, errStopped}
	}
	return markedError{err, errIncomplete}
}

// summary says what was published, and what to type next.
func (a *app) summary(s publish.Summary) {
	for _, problem := range s.Problems {
		fmt.Fprintf(a.stdout, "left out: %v\n", problem)
	}
	if s.Took == 0 {
		fmt.Fprintf(a.stdout, "run %s is published already; there was nothing to do\n", a.runID)
	} else {
		a.speed(s)
	}
	a.counts(s.Total)
	fmt.Fprintf(a.stdout, "published %d items as run %s; follow it with: %s\n", s.Total.Items, a.runID, a.next("status --run "+a.runID+" --watch"))
}

func (a *app) speed(s publish.Summary) {
	published := s.Total.Items - s.Before.Items
	if s.Before.Items > 0 {
		fmt.Fprintf(a.stdout, "%s items were published before\n", progress.Number(s.Before.Items))
	}
	perSecond := 0.0
	if s.Took > 0 {
		perSecond = float64(published) / s.Took.Seconds()
	}
	fmt.Fprintf(a.stdout, "%s items in %s, %s items/s\n", progress.Number(published), progress.Duration(s.Took), progress.Number(int64(perSecond)))
}

// counts shows that nothing was passed over in silence.
func (a *app) counts(c dataset.Counts) {
	fmt.Fprintf(a.stdout, "%d rows read = %d items + %d rejected + %d skipped\n", c.Read, c.Items, c.Rejected, c.Skipped)
}

func (a *app) retry(ctx context.Context, p *publish.Publisher, data *dataset.Dataset, db *sink.Database, of publish.RetryOf) error {
	count, err := p.Retry(ctx, a.runID, data, db.Results(), of)
	if err != nil {
		return a.noRun(stopped(err))
	}
	_, err = fmt.Fprintf(a.stdout, "published %d %s items of run %s again; follow it with: %s\n", count, of, a.runID, a.next("status --run "+a.runID+" --watch"))
	return err
}

// dryRun needs neither topic nor database.
func (a *app) dryRun(cmd *cobra.Command, sources []string, opts dataset.Options) error {
	if err := a.checkRun(); err != nil {
		return err
	}
	const first = 3
	return a.withDataset(cmd.Context(), sources, opts, func(data *dataset.Dataset) error {
		log := slog.New(slog.NewJSONHandler(a.stderr, nil))
		report, err := publish.DryRun(cmd.Context(), a.runID, data, a.progress(log), first, a.showMessage)
		if err != nil {
			return err
		}
		for _, problem := range report.Problems {
			fmt.Fprintf(a.stdout, "would be left out: %v\n", problem)
		}
		a.counts(report.Counts)
		_, err = fmt.Fprintf(a.stdout, "would publish %d items with %s as run %s; nothing was published\n", report.Items, progress.Bytes(report.Bytes), a.runID)
		return err
	})
}
