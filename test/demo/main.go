// Command demo runs the whole job on real input and shows that nothing is
// lost: it publishes the 10,000 MNIST test images, drains one worker and kills
// another in the middle, and checks what came out. `make demo` prepares what it
// needs and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/spotbatch/spotbatch/internal/signals"
)

func main() {
	stop, release := signals.Notify(context.Background())
	code := run(stop.Context, os.Args[1:], os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	d := demo{out: stdout}
	flags.StringVar(&d.bin, "bin", "bin", "`folder` with worker, publisher and localcloud")
	flags.StringVar(&d.config, "config", "configs/local.yaml", "configuration `file`")
	flags.StringVar(&d.data, "data", ".cache/digits", "`folder` with images/ and labels.csv")
	flags.StringVar(&d.dir, "out", "out/demo", "`folder` for results and logs")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	summary, err := d.run(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "demo: stopped:", context.Cause(ctx))
		return 1
	}
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	if err := summary.check(); err != nil {
		fmt.Fprintln(stderr, "demo: the job did not end as it must:", err)
		return 1
	}
	return 0
}
