// Command chaos runs spotbatch under random disturbances and checks its
// guarantees against what the servers saw: workers and publishers are real
// processes that get killed, stopped and frozen, runners die, items are bad,
// messages come twice, and Pub/Sub and Spanner, which run inside this process,
// fail, hang and lose replies. docs/chaos.md says how to read what it prints.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
