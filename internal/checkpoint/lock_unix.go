//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks file until it is closed, or the process ends, and returns
// ErrLocked when another process has it. On a file system that cannot lock it
// does nothing.
func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrLocked
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS):
		return nil
	}
	return err
}
