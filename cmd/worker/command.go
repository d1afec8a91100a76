package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDevice = 3
)

// errUsage marks errors of the command line and of the configuration.
var errUsage = errors.New("usage")

// usageError keeps its cause's text and is errUsage.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error      { return e.error }

// run executes one command line and returns the exit code.
func run(stop signals.Stop, args, environ []string, stdout, stderr io.Writer) int {
	root := newRoot(stop, environ, stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(stop.Context)
	if err == nil {
		return exitDone
	}
	// Each problem stands on a line of its own.
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(stderr, "worker: "+line)
	}
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, worker.ErrDevice):
		return exitDevice
	}
	return exitFailed
}

func newRoot(stop signals.Stop, environ []string, stdout, stderr io.Writer) *cobra.Command {
	var file string
	load := func() (config.Config, map[string]config.Source, error) {
		cfg, sources, err := config.Load(file, environ)
		if err == nil {
			err = cfg.ValidateWorker()
		}
		if err != nil {
			return cfg, nil, usageError{err}
		}
		return cfg, sources, nil
	}
	root := &cobra.Command{
		Use:           "worker",
		Short:         "Run a model on the items of a Pub/Sub subscription and store the results in Spanner",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("say what to do, such as `worker run`; `%s --help` lists the commands", cmd.CommandPath())}
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.PersistentFlags().StringVar(&file, "config", "", "YAML `file`; SPOTBATCH_* variables win over it")

	root.AddCommand(
		&cobra.Command{
			Use:     "run",
			Short:   "Work until SIGTERM or ctrl-C",
			Example: "  worker run --config configs/local.yaml",
			Args:    noArgs,
			RunE: func(*cobra.Command, []string) error {
				cfg, _, err := load()
				if err != nil {
					return err
				}
				return serve(stop, cfg, environ, stderr)
			},
		},
		&cobra.Command{
			Use:     "check-config",
			Short:   "Check the configuration and print every key with its value and source",
			Example: "  worker check-config --config configs/worker.yaml",
			Args:    noArgs,
			RunE: func(*cobra.Command, []string) error {
				cfg, sources, err := load()
				if err != nil {
					return err
				}
				return config.Write(stdout, cfg, sources)
			},
		},
		&cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  noArgs,
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprintln(stdout, "worker "+version)
				return err
			},
		},
	)
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command or argument %q; see `%s --help`", args[0], cmd.CommandPath())}
	}
	return nil
}

// workerName is what rows say of who made them: the pod's name, or host and
// process.
func workerName(environ []string) string {
	for _, entry := range environ {
		if name, found := strings.CutPrefix(entry, "POD_NAME="); found && name != "" {
			return name
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
