// Command publisher splits a dataset into Pub/Sub messages, and tells what
// became of them.
package main

import (
	"context"
	"os"

	"github.com/spotbatch/spotbatch/internal/signals"
)

// version is set by the linker.
var version = "dev"

func main() {
	// Before anything else: a SIGTERM that arrives during the start is a stop,
	// not a crash.
	stop, release := signals.Notify(context.Background())
	code := run(stop, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}
