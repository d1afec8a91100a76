//go:build !unix

package checkpoint

import "os"

// tryLock does nothing here: the numbers of snapshots alone tell two processes
// from one.
func tryLock(*os.File) error { return nil }
