package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// options are what the command line says.
type options struct {
	settings
	runs     int
	seed     uint64
	time     time.Duration
	parallel int
	plan     bool
}

// command runs one command line and returns the exit code: 1 when a guarantee
// was broken.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	flags.StringVar(&o.bin, "bin", "bin/chaos", "folder with worker, publisher and runner")
	flags.StringVar(&o.worker, "worker", "worker", "program in that folder that is run as the worker")
	flags.StringVar(&o.out, "out", "out/chaos", "folder for the logs of runs that fail")
	flags.IntVar(&o.runs, "runs", 100, "number of runs")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the first run; each run takes the next one; 0: a new one each time")
	flags.DurationVar(&o.time, "time", 0, "go on for this long, whatever the number of runs")
	flags.IntVar(&o.parallel, "parallel", 6, "runs at once")
	flags.BoolVar(&o.plan, "plan", false, "print the plans and do nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000_000)
	}
	if o.plan {
		for i := range uint64(o.runs) {
			p := newPlan(o.seed + i)
			p.write(stdout)
		}
		return 0
	}
	if err := o.absolute(); err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 1
	}
	fmt.Fprintf(stdout, "chaos: from seed %d on, %d runs at once\n", o.seed, o.parallel)
	summary, err := o.runAll(ctx, stdout)
	fmt.Fprintln(stdout, summary.String())
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 1
	}
	if summary.failed > 0 {
		return 1
	}
	return 0
}

// absolute makes paths that hold in any folder.
func (o *options) absolute() (err error) {
	for _, path := range []*string{&o.bin, &o.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// runAll carries out the runs, several at once. Its error says that one could
// not be carried out.
func (o *options) runAll(ctx context.Context, stdout io.Writer) (*summary, error) {
	var mu sync.Mutex // guards sum and stdout
	sum := newSummary()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(o.parallel)
	begin := time.Now()
	more := func(i int) bool {
		if o.time > 0 {
			return time.Since(begin) < o.time
		}
		return i < o.runs
	}
	for i := 0; more(i) && groupCtx.Err() == nil; i++ {
		group.Go(func() error {
			outcome, err := execute(groupCtx, o.settings, newPlan(o.seed+uint64(i)))
			if err != nil {
				return fmt.Errorf("seed %d: %w", o.seed+uint64(i), err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(outcome)
			if len(outcome.violations) > 0 {
				outcome.write(stdout)
				return outcome.keep()
			}
			return os.RemoveAll(outcome.dir)
		})
	}
	err := group.Wait()
	sum.took = time.Since(begin)
	if ctx.Err() != nil && err == nil {
		err = context.Cause(ctx)
	}
	return sum, err
}
