//go:build unix && !linux

package command

import (
	"os"
	"syscall"
)

// processAttributes puts a child into a process group of its own. Only Linux
// can also kill it when this process dies; elsewhere the child sees the end of
// its input.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit does nothing here: reaping waits, and the moment between it and
// the last signal to the group is accepted.
func awaitExit(*os.Process) {}
