package dataset

import (
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/spotbatch/spotbatch/internal/item"
)

// ErrDuplicate says that an item has the ID of an earlier one.
var ErrDuplicate = errors.New("duplicate item_id")

// Counts is what has been read so far: Read = Items + Rejected + Skipped.
type Counts struct {
	// Read counts rows, files and objects. Blank lines, folder markers and
	// what Include and Exclude leave out are none.
	Read int64 `json:"read"`
	// Items is the number to publish.
	Items int64 `json:"items"`
	// Rejected counts bad rows, Skipped duplicates.
	Rejected int64 `json:"rejected"`
	Skipped  int64 `json:"skipped"`
	// Bytes is the size of the items' payloads as far as messages carry them.
	// Check does not know it of files, which it does not open.
	Bytes int64 `json:"bytes"`
}

// Position says where an entry stands, and holds what is needed to go on after
// it. It can be kept as JSON. The zero Position is the start of the dataset.
type Position struct {
	// Source is the index in Dataset.Sources.
	Source int `json:"source"`
	// File is a path, or a gs:// address.
	File string `json:"file"`
	// Row is the number of the row in File, from 1; 0 when the item is the
	// whole file.
	Row int64 `json:"row,omitempty"`
	// Line is the line on which the row begins, from 1; 0 when the item is the
	// whole file, and in files without lines.
	Line int `json:"line,omitempty"`
	// Offset and NextLine say where the row after this one begins, in bytes of
	// the uncompressed file and in lines. 0 when they are not known.
	Offset   int64 `json:"offset,omitempty"`
	NextLine int   `json:"next_line,omitempty"`
	// Counts is everything up to this entry, with it.
	Counts Counts `json:"counts"`
}

// String returns file:line, or what there is of it, for people.
func (p Position) String() string {
	switch {
	case p.Line > 0:
		return p.File + ":" + strconv.Itoa(p.Line)
	case p.Row > 0:
		return fmt.Sprintf("%s row %d", p.File, p.Row)
	}
	return p.File
}

// Entry is an item, its RunID empty, and where it came from.
type Entry struct {
	item.Item
	Position Position
	// Problem is nil for items. Otherwise the entry is a bad row or, with
	// ErrDuplicate, the second item of its ID: it is counted as Rejected or
	// Skipped, and must not be published. Such entries come only as far as
	// the options allow them.
	Problem error
}

// BadRow says why a row, file or object cannot be an item.
type BadRow struct {
	// At is where it stands.
	At  Position
	Err error
	// Raw is the row as it stands in the source, as far as it is known.
	Raw []byte
}

// Error names the place.
func (b *BadRow) Error() string { return b.At.String() + ": " + b.Err.Error() }

// Unwrap returns the cause.
func (b *BadRow) Unwrap() error { return b.Err }

// Entries is a sequence that ends after its first error.
type Entries = iter.Seq2[Entry, error]
