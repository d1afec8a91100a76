package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/publish/progress"
	"github.com/spotbatch/spotbatch/internal/sink"
)

// runLine is a run as runs -o json prints it.
type runLine struct {
	RunID     string        `json:"run_id"`
	State     publish.State `json:"state"`
	Published int64         `json:"published"`
	Dataset   string        `json:"dataset"`
	StartedAt time.Time     `json:"started_at"`
	UpdatedAt time.Time     `json:"updated_at"`
}

func (a *app) runsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "runs",
		Short:   "List the runs, the last one first",
		Example: "  publisher runs --config configs/local.yaml\n  publisher runs -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := textOrJSON(output); err != nil {
				return err
			}
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
				if output == "json" {
					return a.runsAsJSON(cmd.Context(), db)
				}
				return a.runsAsText(cmd.Context(), db)
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) runsAsJSON(ctx context.Context, db *sink.Database) error {
	out := json.NewEncoder(a.stdout)
	return db.Runs().List(ctx, func(r publish.Run) error {
		return out.Encode(runLine{r.ID, r.State, r.Published, r.Dataset, r.CreatedAt, r.UpdatedAt})
	})
}

func (a *app) runsAsText(ctx context.Context, db *sink.Database) error {
	table := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "RUN\tSTATE\tPUBLISHED\tSTARTED\tDATASET")
	count := 0
	err := db.Runs().List(ctx, func(r publish.Run) error {
		count++
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.State, progress.Number(r.Published), r.CreatedAt.Format(time.RFC3339), r.Dataset)
		return err
	})
	if err != nil {
		return err
	}
	if count == 0 {
		_, err := fmt.Fprintln(a.stdout, "no runs yet; begin one: "+a.next("publish --run first SOURCE"))
		return err
	}
	return table.Flush()
}

// completeRun completes the names of runs, as far as the configuration on the
// line so far leads to a database that answers soon.
func (a *app) completeRun(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	cfg, err := a.config(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	// What cannot be read cannot be completed, and this is no place to say so.
	_ = a.openDatabase(ctx, cfg, func(db *sink.Database) error {
		return db.Runs().List(ctx, func(r publish.Run) error {
			if strings.HasPrefix(r.ID, typed) {
				names = append(names, r.ID)
			}
			return nil
		})
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) cancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel --run NAME",
		Short: "Make workers skip what is left of a run",
		Long: "Marks the run as cancelled. A publish of it ends within seconds, and workers skip its messages from ten\n" +
			"seconds later on. Results that are stored stay. It cannot be taken back; the same items can be published\n" +
			"as another run.",
		Example: "  publisher cancel --config configs/local.yaml --run first",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
				before, err := db.Runs().Cancel(cmd.Context(), a.runID)
				if err != nil {
					return a.noRun(err)
				}
				_, err = fmt.Fprintf(a.stdout, "cancelled run %s, of which %d items were published (it was %s); remove its rows with: %s\n",
					a.runID, before.Published, before.State, a.next("purge --run "+a.runID))
				return err
			})
		},
	}
	a.runFlag(cmd)
	return cmd
}

func (a *app) purgeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge --run NAME",
		Short: "Remove a run and all its rows, after asking",
		Long: "Removes the results of a run, and the run itself. It must be complete or cancelled: what workers still\n" +
			"have in hand would come back as rows of a run that is gone. A purge that was stopped is gone on with by\n" +
			"the same command.",
		Example: "  publisher purge --config configs/local.yaml --run first\n  publisher purge --run first --yes",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.runConfig(cmd)
			if err != nil {
				return err
			}
			return a.withDatabase(cmd.Context(), cfg, func(db *sink.Database) error {
				return a.purge(cmd.Context(), cfg, db, yes)
			})
		},
	}
	a.runFlag(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) purge(ctx context.Context, cfg config.Config, db *sink.Database, yes bool) error {
	s, err := publish.ReadStatus(ctx, db.Runs(), db.Results(), a.runID)
	if err != nil {
		return a.noRun(err)
	}
	if !s.Complete && s.State != publish.StateCancelled {
		return fmt.Errorf("run %s is %s with %d items outstanding; cancel it first: %s", a.runID, s.State, s.Outstanding, a.next("cancel --run "+a.runID))
	}
	if !yes {
		if err := a.confirm(fmt.Sprintf("Remove run %s with %s results from %s?", a.runID, progress.Number(s.OK+s.Failed), cfg.Spanner.Database)); err != nil {
			return err
		}
	}
	shown := time.Now()
	log := a.logger(cfg)
	err = db.Runs().Purge(ctx, a.runID, func(rows int64) {
		if now := time.Now(); now.Sub(shown) > 5*time.Second {
			shown = now
			log.Info("purging", "run_id", a.runID, "rows_removed", rows)
		}
	})
	if err != nil {
		return a.noRun(err)
	}
	_, err = fmt.Fprintf(a.stdout, "removed run %s\n", a.runID)
	return err
}

// confirm asks a person, and returns an error unless the answer is yes.
func (a *app) confirm(question string) error {
	if !isTerminal(a.stderr) || !isTerminalReader(a.stdin) {
		return usage(errors.New("nobody is there to ask; give --yes to go on without"))
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was removed")
}
