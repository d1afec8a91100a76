// Command bench measures the worker's pipeline as it runs in production: real
// processes and the official services' APIs, on one machine. `make bench`
// builds what it needs and calls it; docs/performance.md says what the lines of
// its table mean.
//
// The model is a stub that waits for a fixed time inside the worker process, so
// that what is measured is everything but the model. The workers under
// measurement are this program itself, started again with a hidden first
// argument; they are wired as cmd/worker wires them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spotbatch/spotbatch/internal/signals"
)

func main() {
	stop, release := signals.Notify(context.Background())
	code := run(stop.Context, os.Args[1:], os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if serve, is := roles[args[0]]; is {
			return exitCode(stderr, runRole(ctx, serve, args[1:], stdout, stderr))
		}
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := &bench{progress: stderr, report: report{Machine: machine(), Delays: delays, Begun: time.Now().UTC()}}
	flags.StringVar(&b.bin, "bin", "bin", "`folder` with localcloud")
	file := flags.String("json", "", "`file` for the table as JSON; empty: none")
	chosen := flags.String("parts", "", "`parts` to measure, with commas between them; empty: all of "+strings.Join(partNames(), ","))
	quick := flags.Bool("quick", false, "measure so little that nothing can be learned from the figures: for tests of this program")
	profiles := flags.String("profiles", "", "`folder` for a CPU profile of each worker of the part overhead; empty: none")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	b.size, b.profiles = full, *profiles
	if *quick {
		b.size = tiny
	}
	names := partNames()
	if *chosen != "" {
		names = strings.Split(*chosen, ",")
	}
	fmt.Fprintf(stderr, "%s\n", b.report.Machine)
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return exitCode(stderr, fmt.Errorf("there is no part %q; there are %s", name, strings.Join(partNames(), ", ")))
		}
		b.part = name
		if err := parts[i].measure(b, ctx); err != nil {
			return exitCode(stderr, fmt.Errorf("%s: %w", name, err))
		}
	}
	b.report.Took = time.Since(b.report.Begun).Round(time.Second).String()
	b.report.print(stdout)
	if *file == "" {
		return 0
	}
	return exitCode(stderr, b.report.write(*file))
}

func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "bench:", strings.TrimSpace(err.Error()))
	if errors.Is(err, flag.ErrHelp) {
		return 2
	}
	return 1
}

// part is a group of lines of the table that can be measured alone.
type part struct {
	name    string
	measure func(*bench, context.Context) error
}

// parts are in the order of the table.
var parts = []part{
	{"busy", (*bench).busy},
	{"textbook", (*bench).textbook},
	{"overhead", (*bench).overhead},
	{"drain", (*bench).drain},
	{"goodput", (*bench).goodput},
	{"scale", (*bench).scale},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// bench is one run of the program.
type bench struct {
	bin      string
	profiles string
	size     size
	progress io.Writer

	part   string // that is being measured
	report report
}

// size says how much is measured.
type size struct {
	// warmBatches is how many batches each worker has run before it is watched.
	warmBatches int
	// window is how long the models are watched, at least for windowBatches
	// batches.
	window        time.Duration
	windowBatches time.Duration
	// overheadItems is how many items are counted, after as many again as a
	// quarter of them, and overheadRounds how often: a machine is not equally
	// fast at all times.
	overheadItems  int
	overheadRounds int
	drains         int
	// preemptions is how often a worker is stopped, one each preemptEvery.
	preemptions  int
	preemptEvery time.Duration
	// scales are the numbers of items of the part scale, and how often each is
	// measured.
	scales []scaleSize
}

type scaleSize struct{ items, rounds int }

var (
	full = size{
		warmBatches: 10, window: 5 * time.Second, windowBatches: 20, overheadItems: 100_000, overheadRounds: 3, drains: 100,
		preemptions: 6, preemptEvery: 5 * time.Second,
		scales: []scaleSize{{10_000, 5}, {100_000, 2}, {1_000_000, 1}},
	}
	tiny = size{
		warmBatches: 2, window: 100 * time.Millisecond, windowBatches: 2, overheadItems: 1000, overheadRounds: 1, drains: 2,
		preemptions: 1, preemptEvery: 500 * time.Millisecond,
		scales: []scaleSize{{500, 1}, {1000, 1}},
	}
)

// machine describes what everything runs on.
func machine() string {
	return fmt.Sprintf("%d CPUs (%s) for workers, localcloud and bench together, %s, load average before: %s",
		runtime.NumCPU(), cpuModel(), runtime.Version(), loadAverage())
}
