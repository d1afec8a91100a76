//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"syscall"
)

// variable says where to die.
const variable = "SPOTBATCH_TEST_CRASH"

// armed is read before main, so that a misspelt point ends the process at once,
// and not a test in which nobody has died.
var armed = arm(os.Getenv(variable))

func arm(value string) *plan {
	p, err := parse(value)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", variable, value, err)
		os.Exit(2) //nolint:forbidigo // this is before main
	}
	return p
}

// At kills the process if this is the pass to die at. It is safe for concurrent
// use.
func At(p Point) {
	if !armed.reached(p) {
		return
	}
	// A line of the worker's log, for who wants to know where it ended.
	fmt.Fprintf(os.Stderr, `{"level":"ERROR","msg":"crash point","point":%q,"pass":%d}`+"\n", p, armed.pass)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // whatever the kernel still lets run, this goroutine goes no further
}
