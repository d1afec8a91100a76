package sink

import (
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"cloud.google.com/go/spanner"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// shards is the number of ranges that the rows of a run are spread over.
const shards = 64

// What a column takes. A STRING(MAX) cell of Spanner holds 2,621,440
// characters, and no cell more than 10 MiB
// (https://cloud.google.com/spanner/quotas).
const (
	maxOutputChars  = 2_621_440
	maxOutputBytes  = 10 << 20
	maxMessageChars = 2048
	maxVersionChars = 128
	maxWorkerChars  = 128
	maxClassChars   = 32
)

// rowOverhead stands for everything in a row that is not text, in bytes.
const rowOverhead = 128

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// resultColumns are the columns of a result row; each counts as one mutation.
var resultColumns = []string{
	"RunId", "Shard", "ItemId", "Status", "Output", "ErrorClass", "ErrorMessage",
	"ModelVersion", "Worker", "InferMillis", "CommittedAt",
}

// shardOf spreads item IDs, which are often sequential, over the key space.
func shardOf(itemID string) int64 {
	return int64(crc32.Checksum([]byte(itemID), castagnoli) % shards)
}

// keyOf is the primary key of an item in Results and Attempts.
func keyOf(k item.Key) spanner.Key {
	return spanner.Key{k.RunID, shardOf(k.ItemID), k.ItemID}
}

// row is a result on its way to the table.
type row struct {
	// index is the result's place in the caller's slice.
	index  int
	result worker.Result
}

// check reports why the table would refuse the row, so that a bad one is not
// sent along with its neighbours.
func (r row) check() error {
	res := r.result
	if err := res.Key.Check(); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(res.ModelVersion); n == 0 || n > maxVersionChars {
		return fmt.Errorf("model_version has %d characters; 1 to %d are allowed", n, maxVersionChars)
	}
	if !utf8.ValidString(res.ModelVersion) {
		return fmt.Errorf("model_version %q is not valid UTF-8", res.ModelVersion)
	}
	switch res.Status {
	case worker.StatusFailed:
		return nil
	case worker.StatusOK:
		return checkOutput(res.Output)
	}
	return fmt.Errorf("status %q is neither OK nor FAILED", res.Status)
}

func checkOutput(output []byte) error {
	if len(output) > maxOutputBytes {
		return fmt.Errorf("output has %d bytes; Spanner stores at most %d in a cell", len(output), maxOutputBytes)
	}
	if !utf8.Valid(output) {
		return fmt.Errorf("output of %d bytes is not valid UTF-8", len(output))
	}
	if n := utf8.RuneCount(output); n > maxOutputChars {
		return fmt.Errorf("output has %d characters; Spanner stores at most %d in a cell", n, maxOutputChars)
	}
	return nil
}

// bytes is about what the row adds to a commit.
func (r row) bytes() int {
	res := r.result
	return rowOverhead + len(res.Key.RunID) + len(res.Key.ItemID) + len(res.Output) +
		min(len(res.Message), maxMessageChars*utf8.UTFMax) + len(res.ModelVersion) + len(res.Worker)
}

// mutation writes every column, so that nothing of an earlier row stays.
func (r row) mutation() *spanner.Mutation {
	res := r.result
	var output, class, message spanner.NullString
	if res.Status == worker.StatusOK {
		output = spanner.NullString{StringVal: string(res.Output), Valid: true}
	} else {
		class = spanner.NullString{StringVal: clip(string(res.Class), maxClassChars), Valid: true}
		message = spanner.NullString{StringVal: clip(res.Message, maxMessageChars), Valid: true}
	}
	return spanner.InsertOrUpdate(tableResults, resultColumns, []any{
		res.Key.RunID, shardOf(res.Key.ItemID), res.Key.ItemID, string(res.Status), output, class, message,
		res.ModelVersion, clip(res.Worker, maxWorkerChars), res.InferMillis, spanner.CommitTimestamp,
	})
}

// clip makes s storable: valid UTF-8 of at most limit characters.
func clip(s string, limit int) string {
	// Bytes beyond these can only be cut, and error texts may hold a whole
	// payload.
	if most := limit * utf8.UTFMax; len(s) > most {
		s = s[:most]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	count := 0
	for i := range s {
		if count == limit {
			return s[:i]
		}
		count++
	}
	return s
}
