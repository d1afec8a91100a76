package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lockName is the file that is locked while a process has the state open. It
// says who that is.
const lockName = "lock"

// dir is a directory of snapshots.
type dir struct {
	path string
	lock *os.File
}

var _ store = (*dir)(nil)

func openDir(path string) (*dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(lock); err != nil {
		if errors.Is(err, ErrLocked) {
			// Reading cannot make it worse.
			holder, _ := io.ReadAll(io.LimitReader(lock, 200))
			// Empty for the moment between the lock and the name in it.
			if name := strings.TrimSpace(string(holder)); name != "" {
				err = fmt.Errorf("%w: %s", err, name)
			}
		}
		return nil, errors.Join(err, lock.Close())
	}
	host, _ := os.Hostname() // for people; without it there is the number
	if err := lock.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(lock, "process %d on %s\n", os.Getpid(), host)
	}
	return &dir{path: path, lock: lock}, nil
}

func (d *dir) list(context.Context) ([]uint64, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var taken []uint64
	for _, entry := range entries {
		if number, is := numberOf(entry.Name()); is {
			taken = append(taken, number)
		}
	}
	return taken, nil
}

func (d *dir) file(number uint64) string { return filepath.Join(d.path, fileName(number)) }

func (d *dir) read(_ context.Context, number uint64) ([]byte, error) {
	data, err := os.ReadFile(d.file(number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errAbsent
	}
	return data, err
}

// create leaves a torn file when the process is killed in it; the checksum
// gives it away.
func (d *dir) create(_ context.Context, number uint64, data []byte) error {
	file, err := os.OpenFile(d.file(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return errExists
	}
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return d.sync()
}

// sync makes names durable.
func (d *dir) sync() error {
	directory, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (d *dir) remove(_ context.Context, number uint64) error {
	if err := os.Remove(d.file(number)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *dir) close() error { return d.lock.Close() }
