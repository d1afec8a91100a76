// Command publishbench measures the publisher as its users meet it: real
// processes, one machine. `make bench-publisher` builds what it needs and calls
// it. It compares the publisher with a bare loop on the official client, and
// publishes a large dataset while it kills the publisher again and again. It
// fails when an item is lost or counted twice; of speed and memory it says what
// they were.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/test/cluster"
)

func main() {
	stop, release := signals.Notify(context.Background())
	code := run(stop.Context, os.Args[1:], os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("publishbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := bench{out: stdout}
	flags.StringVar(&b.bin, "bin", "bin", "`folder` with publisher and localcloud")
	flags.Int64Var(&b.rows, "rows", 10_000_000, "`number` of rows of 100 bytes that are published under fire")
	flags.IntVar(&b.kills, "kills", 5, "`number` of times that the publisher is killed")
	flags.Int64Var(&b.speedRows, "speed-rows", 500_000, "`number` of rows of 1 KB whose speed is compared")
	only := flags.String("only", "", "`part` to run, speed or kills; empty is both")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fmt.Fprintf(stdout, "%d CPUs for everything together, %s\n", runtime.NumCPU(), runtime.Version())
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{{"speed", b.speed}, {"kills", b.killed}} {
		if *only != "" && *only != part.name {
			continue
		}
		if err := part.do(ctx); err != nil {
			fmt.Fprintln(stderr, "publishbench:", err)
			return 1
		}
	}
	return 0
}

// bench is one run of the program.
type bench struct {
	bin       string
	rows      int64
	kills     int
	speedRows int64
	out       io.Writer
}

const (
	project  = "demo"
	database = "projects/demo/instances/spotbatch/databases/spotbatch"
)

// site is a localcloud with a folder of its own.
type site struct {
	*bench
	cloud *cluster.Cluster
	dir   string
}

// with runs part with a localcloud on which everything is set up.
func (b *bench) with(ctx context.Context, part func(*site) error) error {
	dir, err := os.MkdirTemp("", "publishbench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only our own files
	s := &site{bench: b, dir: dir}
	s.cloud, err = cluster.Start(ctx, cluster.Options{Bin: b.bin, Dir: dir})
	if err != nil {
		return err
	}
	defer s.cloud.Close()
	// The clients of this process find the services by these variables, too.
	for _, entry := range s.cloud.Env() {
		name, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if out, err := s.publisher(ctx, "setup").CombinedOutput(); err != nil {
		return fmt.Errorf("setup: %w: %s", err, out)
	}
	return part(s)
}

// publisher is a command of the publisher.
func (s *site) publisher(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "publisher"), args...)
	cmd.Env = append(os.Environ(),
		"SPOTBATCH_PROJECT="+project, "SPOTBATCH_SPANNER_DATABASE="+database,
		"SPOTBATCH_PUBSUB_TOPIC=items", "SPOTBATCH_PUBSUB_SUBSCRIPTION=items-workers", "SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC=items-dead",
		"XDG_CACHE_HOME="+s.dir, "TMPDIR="+s.dir,
	)
	return cmd
}

// peak is the most memory that an ended process has had, in MB.
func peak(cmd *exec.Cmd) int64 {
	usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !is {
		return 0
	}
	return usage.Maxrss * 1024 / 1_000_000
}
