package dataset

import (
	"fmt"
	"time"
)

// Source is the identity of one file of rows, or of one set of files.
type Source struct {
	// Name is an absolute path, a gs:// address, or - for standard input.
	Name string `json:"name"`
	// Files is the number of files of a directory, prefix or glob; it is known
	// after Check. 0 for a file of rows.
	Files int64 `json:"files,omitempty"`
	// Size in bytes, of all files together.
	Size int64 `json:"size"`
	// Generation of an object in a bucket.
	Generation int64 `json:"generation,omitempty"`
	// ModTime of a local file.
	ModTime time.Time `json:"mtime,omitzero"`
	// Hash of the head and tail of a local file, of all of standard input, or,
	// after Check, of the names, sizes and versions of all files of a set.
	Hash string `json:"hash,omitempty"`
}

// Changed says in words what is different about the source now, or returns "".
func (s Source) Changed(now Source) string {
	switch {
	case s.Name != now.Name:
		return fmt.Sprintf("%s is %s now", s.Name, now.Name)
	case s.Files != now.Files:
		return fmt.Sprintf("%s had %d files and has %d now", s.Name, s.Files, now.Files)
	case s.Size != now.Size:
		return fmt.Sprintf("%s had %d bytes and has %d now", s.Name, s.Size, now.Size)
	case s.Generation != now.Generation:
		return fmt.Sprintf("%s was generation %d and is %d now", s.Name, s.Generation, now.Generation)
	case s.Hash != now.Hash:
		return fmt.Sprintf("%s has other content than before, of the same size", s.Name)
	case !s.ModTime.Equal(now.ModTime):
		return fmt.Sprintf("%s was changed at %s", s.Name, now.ModTime.Format(time.RFC3339))
	}
	return ""
}
