package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spotbatch/spotbatch/internal/localcloud"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

// run executes one command line and returns the exit code. The end of ctx is the wish to stop.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr) //nolint:contextcheck // cobra carries it
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, "localcloud: "+strings.ReplaceAll(explain(err), "\n", " "))
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	cfg := localcloud.Default()
	root := &cobra.Command{
		Use:   "localcloud",
		Short: "Run Pub/Sub, Spanner and Cloud Storage on this machine, in memory",
		Long: "Runs Pub/Sub, Spanner and Cloud Storage on this machine, in memory, over their real APIs.\n" +
			"Prints the environment that points the official clients at it, then \"ready\", and serves until\n" +
			"SIGTERM or ctrl-C. Nothing is kept.",
		Example:       "  localcloud\n  localcloud --pubsub 127.0.0.1:0 --spanner 127.0.0.1:0 --gcs 127.0.0.1:0 --admin \"\"",
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), cfg, stdout)
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.Flags().StringVar(&cfg.PubSubAddr, string(localcloud.PubSub), cfg.PubSubAddr, "`host:port` for Pub/Sub; port 0 takes a free one, \"\" leaves the service out")
	root.Flags().StringVar(&cfg.SpannerAddr, string(localcloud.Spanner), cfg.SpannerAddr, "`host:port` for Spanner; as above")
	root.Flags().StringVar(&cfg.GCSAddr, string(localcloud.GCS), cfg.GCSAddr, "`host:port` for Cloud Storage; as above")
	root.Flags().StringVar(&cfg.AdminAddr, string(localcloud.Admin), cfg.AdminAddr, "`host:port` for faults on demand, and a page that shows where everything is; as above")
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, "localcloud "+version)
			return err
		},
	})
	return root
}

// serve runs the services until ctx is done.
func serve(ctx context.Context, cfg localcloud.Config, stdout io.Writer) error {
	server, err := localcloud.Start(ctx, cfg)
	if _, malformed := errors.AsType[*net.AddrError](err); malformed {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	defer server.Close()
	if err := announce(stdout, server.Env()); err != nil {
		return fmt.Errorf("print the environment: %w", err)
	}
	return server.Wait()
}

// announce prints what a shell evaluates, and last the line that others wait for.
func announce(stdout io.Writer, env []string) error {
	var text strings.Builder
	for _, variable := range env {
		text.WriteString("export " + variable + "\n")
	}
	text.WriteString("ready\n")
	_, err := io.WriteString(stdout, text.String())
	return err
}

// explain says what to do about an address that cannot be had.
func explain(err error) string {
	listen, ok := errors.AsType[*localcloud.ListenError](err)
	if !ok {
		return err.Error()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Sprintf("--%s %s: the address is in use; stop what listens there, give another port, or \"\" to leave it out", listen.Service, listen.Addr)
	}
	reason := listen.Err
	if op, ok := errors.AsType[*net.OpError](reason); ok {
		reason = op.Err // without the address, which stands there already
	}
	return fmt.Sprintf("--%s %s: %v", listen.Service, listen.Addr, reason)
}

// usageError keeps its cause's text and is errUsage.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error      { return e.error }

func usage(err error) error { return usageError{fmt.Errorf("%w; see `localcloud --help`", err)} }

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("unknown argument %q", args[0]))
	}
	return nil
}
