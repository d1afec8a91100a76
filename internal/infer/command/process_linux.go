package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a child into a process group of its own, so that
// signals reach its descendants, and lets the kernel kill it when this process
// dies in whatever way.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the process has ended and leaves it unreaped, so that
// its ID, which is its group's too, cannot yet be another's.
func awaitExit(p *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
