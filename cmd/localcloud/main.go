// Command localcloud runs Pub/Sub, Spanner and Cloud Storage on this machine, in memory, for demos,
// development and tests.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	// Held to the end: a second signal must not turn a clean end into a killed process.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
