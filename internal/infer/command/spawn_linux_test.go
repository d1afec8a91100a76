package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel takes the end of a thread for the death of the parent when that
// thread started the child. Goroutines that end while they are locked to a
// thread end it.
func TestSpawnedProcessOutlivesTheThreadOfItsCaller(t *testing.T) {
	s := newSpawner()
	s.open()
	defer s.close()
	cmd := exec.Command(os.Args[0], "child", "slow")
	cmd.SysProcAttr = processAttributes()
	var thread int
	var err error
	endThreadAfter(func() {
		thread = unix.Gettid()
		err = s.start(cmd)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for gone := false; !gone; <-tick.C {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		gone = os.IsNotExist(err)
	}
	var status unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &status, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil {
		t.Fatal(err)
	}
	if status.Signo != 0 {
		t.Error("the process was killed with the thread of the goroutine that asked for it")
	}
}

// endThreadAfter runs do in a thread that ends soon after.
func endThreadAfter(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if unix.Gettid() == os.Getpid() {
			endThreadAfter(do) // in another one: a process's first thread never ends before it
			return
		}
		do()
	}()
	<-done
}
