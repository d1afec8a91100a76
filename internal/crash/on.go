//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// variable says where to die.
const variable = "SPOTBATCH_TEST_CRASH"

// lastWords is how long the rest of the process goes on before it dies, with
// nobody passing the point. What another part of it does too early, such as an
// ack that does not wait for the commit, gets out in this time and is seen.
const lastWords = 100 * time.Millisecond

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

// At kills the process if this is the pass to die at, and then does not return.
// It is safe for concurrent use.
func At(p Point) {
	here, kill := armed.reached(p)
	if !here {
		return
	}
	if !kill {
		select {}
	}
	// A line of the worker's log, for who wants to know where it ended.
	fmt.Fprintf(os.Stderr, `{"level":"ERROR","msg":"crash point","point":%q,"pass":%d}`+"\n", p, armed.pass)
	<-time.After(lastWords)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the kernel may still let it run for a moment
}
