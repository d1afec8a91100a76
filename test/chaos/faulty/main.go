// Command faulty is a worker with a bug, by which the auditor of the chaos tests
// is tested. It is wired from the product's own packages; only what stands
// between them misbehaves, as CHAOS_BUG says.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spotbatch/spotbatch/internal/signals"
)

func main() {
	stop, release := signals.Notify(context.Background())
	err := work(stop.Context, os.Getenv("CHAOS_BUG"), os.Environ())
	release()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faulty:", err)
		os.Exit(1)
	}
}
