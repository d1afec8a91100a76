// Command cloudbench measures localcloud as its users meet it: a real process,
// the official clients, everything on one machine. `make bench-localcloud` builds
// what it needs and calls it. It prints a table and judges nothing: a machine that
// is busy with other things is no fault of the code.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"

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
	flags := flag.NewFlagSet("cloudbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bin := flags.String("bin", "bin", "`folder` with localcloud")
	only := flags.String("only", "", "`service` to measure, pubsub or spanner; empty is both")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	b := bench{bin: *bin, progress: stderr}
	for _, m := range []struct {
		service string
		measure func(context.Context) error
	}{{"pubsub", b.pubsub}, {"spanner", b.spanner}} {
		if *only != "" && *only != m.service {
			continue
		}
		if err := m.measure(ctx); err != nil {
			fmt.Fprintln(stderr, "cloudbench:", err)
			return 1
		}
	}
	fmt.Fprintf(stdout, "\n%d CPUs for clients and localcloud together, %s\n\n", runtime.NumCPU(), runtime.Version())
	b.print(stdout)
	return 0
}

// bench collects the rows of the table.
type bench struct {
	bin      string
	progress io.Writer
	rows     []row
}

type row struct{ what, got, goal, met string }

// atLeast and atMost add a row with a goal.
func (b *bench) atLeast(what string, got, goal float64, unit string) {
	b.add(what, got, goal, unit, "at least ", got >= goal)
}

func (b *bench) atMost(what string, got, goal float64, unit string) {
	b.add(what, got, goal, unit, "at most ", got <= goal)
}

func (b *bench) add(what string, got, goal float64, unit, bound string, met bool) {
	format := "%.0f %s"
	if goal < 10 {
		format = "%.2f %s"
	}
	r := row{what: what, got: fmt.Sprintf(format, got, unit), goal: bound + fmt.Sprintf(format, goal, unit), met: "yes"}
	if !met {
		r.met = "NO"
	}
	b.rows = append(b.rows, r)
	fmt.Fprintf(b.progress, "%s: %s\n", r.what, r.got)
}

func (b *bench) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tMEASURED\tGOAL\tMET")
	for _, r := range b.rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.what, r.got, r.goal, r.met)
	}
	_ = table.Flush() // to a terminal
}

// start runs a localcloud of its own, so that one measurement leaves no memory to
// the next, and puts its addresses into this process's environment.
func (b *bench) start(ctx context.Context) (*cluster.Cluster, error) {
	dir, err := os.MkdirTemp("", "cloudbench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the open log is all that is in there
	cloud, err := cluster.Start(ctx, cluster.Options{Bin: b.bin, Dir: dir})
	if err != nil {
		return nil, err
	}
	for _, variable := range cloud.Env() {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			cloud.Close()
			return nil, err
		}
	}
	return cloud, nil
}

// resident returns the memory of localcloud in bytes as the system counts it, what
// its collector has not given back included.
func resident(cloud *cluster.Cluster) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", cloud.Localcloud().PID())
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kb * 1024, err
		}
	}
	return 0, fmt.Errorf("%s says nothing of VmRSS", path)
}
