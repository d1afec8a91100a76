package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
)

func (a *app) setupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "setup",
		Short: "Create what is missing of topics, subscriptions and tables",
		Long: "Creates the topic, the workers' subscription, the dead-letter topic with a subscription that keeps\n" +
			"what comes there (its name and \"-sub\"), and the tables, as far as they are missing. What is there is\n" +
			"left alone. On the real cloud Pub/Sub's own account (service-NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com)\n" +
			"must be allowed to publish to the dead-letter topic and to subscribe to the workers' subscription.\n" +
			"With SPANNER_EMULATOR_HOST set it creates Spanner's instance and database too.",
		Example: "  publisher setup --config configs/local.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.setup(cmd.Context(), cfg)
		},
	}
}

func (a *app) setup(ctx context.Context, cfg config.Config) (err error) {
	report := func(s publish.Step) {
		state := "there"
		if s.Created {
			state = "created"
		}
		if s.Note != "" {
			state += "; " + s.Note
		}
		fmt.Fprintf(a.stdout, "%-40s %s\n", s.What, state)
	}
	client, err := publish.Connect(ctx, cfg.Project, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Setup(ctx, cfg.PubSub, cfg.Pull.Lease, report); err != nil {
		return err
	}
	return sink.Setup(ctx, cfg.Spanner.Database, a.getenv("SPANNER_EMULATOR_HOST") != "", report)
}
