package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/signals"
)

// Exit codes.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2
	exitIncomplete = 4
)

// errUsage marks errors of the command line and of the configuration.
var errUsage = errors.New("usage")

// errStopped marks a stop by SIGTERM after which everything is in order: who
// moves a process to another machine does not want to read of a failure.
var errStopped = errors.New("stopped")

// errIncomplete marks work that is not done to its end, though nothing broke.
var errIncomplete = errors.New("incomplete")

// markedError keeps its cause's text and is mark.
type markedError struct {
	error
	mark error
}

func (e markedError) Is(target error) bool { return target == e.mark }
func (e markedError) Unwrap() error        { return e.error }

func usage(err error) error { return markedError{err, errUsage} }

// run executes one command line and returns the exit code. A second ctrl-C
// ends it at once.
func run(stop signals.Stop, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(stop.Context) }()
	var err error
	select {
	case err = <-done:
	case <-stop.Now:
		err = errors.New("stopped at once by a second ctrl-C")
	}
	if err == nil {
		return exitDone
	}
	marked := errors.Is(err, errStopped) || errors.Is(err, errIncomplete)
	if cause := context.Cause(stop.Context); cause != nil && !marked && interrupted(err, cause) {
		err = markedError{fmt.Errorf("stopped: %w; give the same command again", cause), errIncomplete}
	}
	// Each problem stands on a line of its own.
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(stderr, "publisher: "+line)
	}
	switch {
	case errors.Is(err, errStopped):
		return exitDone
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	}
	return exitFailed
}

// interrupted tells whether err is what a call says when it is stopped.
func interrupted(err, cause error) bool {
	return errors.Is(err, cause) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// app is what all commands share.
type app struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	// flags.
	file  string
	runID string
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "publisher",
		Short: "Split a dataset into Pub/Sub messages, and tell what became of them",
		Long: "Split a dataset into Pub/Sub messages, and tell what became of them.\n\n" +
			"Exit codes: 0 done, or stopped by SIGTERM with everything kept; 1 failed; 2 wrong usage or configuration;\n" +
			"4 incomplete.",
		Example: "  publisher setup --config configs/local.yaml\n" +
			"  publisher publish --config configs/local.yaml --run first rows.jsonl\n" +
			"  publisher status --config configs/local.yaml --run first --watch",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; `%s --help` lists the commands", args[0], cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(fmt.Errorf("say what to do, such as `publisher publish`; `%s --help` lists the commands", cmd.CommandPath()))
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath()))
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.file, "config", "", "YAML `file`; SPOTBATCH_* variables win over it")
	flags.String("project", "", "Google Cloud `project` of the topic; wins over project in the configuration")
	flags.String("database", "", "Spanner database, `projects/P/instances/I/databases/D`; wins over spanner.database")
	root.AddCommand(a.setupCommand(), a.publishCommand(), a.statusCommand(), a.runsCommand(), a.exportCommand(),
		a.verifyCommand(), a.cancelCommand(), a.purgeCommand(),
		&cobra.Command{
			Use:     "version",
			Short:   "Print the version",
			Example: "  publisher version",
			Args:    noArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprintln(a.stdout, "publisher "+version)
				return err
			},
		},
	)
	return root
}

// config loads and checks the configuration.
func (a *app) config(cmd *cobra.Command) (config.Config, error) {
	cfg, _, err := config.Load(a.file, a.environ,
		config.Flag{Key: "project", Flag: cmd.Flags().Lookup("project")},
		config.Flag{Key: "spanner.database", Flag: cmd.Flags().Lookup("database")},
		config.Flag{Key: "publish.max_outstanding", Flag: cmd.Flags().Lookup("max-outstanding")},
	)
	if err == nil {
		err = cfg.ValidatePublisher()
	}
	if err != nil {
		return cfg, usage(err)
	}
	if cfg.Telemetry.Metrics == "prometheus" {
		// A command that soon ends is not scraped, and a worker on the same
		// machine may hold the port. OTEL_METRICS_EXPORTER still wins.
		cfg.Telemetry.Metrics = "none"
	}
	return cfg, nil
}

// runFlag adds --run; runConfig checks it.
func (a *app) runFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.runID, "run", "", "`name` of the run: 1 to 64 of a-z A-Z 0-9 . _ -")
	// An error here is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("run", a.completeRun)
}

// runConfig is config for commands with --run.
func (a *app) runConfig(cmd *cobra.Command) (config.Config, error) {
	if err := a.checkRun(); err != nil {
		return config.Config{}, err
	}
	return a.config(cmd)
}

func (a *app) checkRun() error {
	if a.runID == "" {
		return usage(errors.New("--run is missing; name the run, such as --run first"))
	}
	if err := item.CheckRunID(a.runID); err != nil {
		return usage(fmt.Errorf("--run: %w", err))
	}
	return nil
}

// outputFlag adds -o for commands that print text or JSON; textOrJSON checks
// it.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "`format`: text or json")
	// An error here is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func textOrJSON(output string) error {
	if output != "text" && output != "json" {
		return usage(fmt.Errorf("-o: %q: must be one of text, json", output))
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("unknown argument %q; see `%s --help`", args[0], cmd.CommandPath()))
	}
	return nil
}

func someSources(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(fmt.Errorf("no SOURCE; give files, a directory or gs://bucket/prefix; see `%s --help`", cmd.CommandPath()))
	}
	return nil
}
