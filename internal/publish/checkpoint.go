package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// Checkpoint keeps how far a publish is, so that it can be gone on with. It is used
// by one goroutine at a time.
type Checkpoint interface {
	// Load reads what was saved last into value, as json.Unmarshal does, and
	// says whether there was anything. It is called once, before Save.
	Load(ctx context.Context, value any) (found bool, err error)
	// Save keeps value, which json.Marshal takes, durably and as a whole: after
	// an error the one before may stand, or this one. It may take its time.
	// checkpoint.ErrOvertaken says that another publisher has gone on with the
	// run.
	Save(ctx context.Context, value any) error
}

// NoCheckpoint keeps nothing: an interrupted publish begins anew.
type NoCheckpoint struct{}

// Load implements Checkpoint.
func (NoCheckpoint) Load(context.Context, any) (bool, error) { return false, nil }

// Save implements Checkpoint.
func (NoCheckpoint) Save(context.Context, any) error { return nil }

// snapshot is what Checkpoint keeps of a run.
type snapshot struct {
	RunID string `json:"run_id"`
	// CreatedAt is that of the run's row: a run of the same name that was
	// purged is another one.
	CreatedAt time.Time `json:"created_at"`
	// Shape is the options that decide what the items are.
	Shape   string           `json:"shape"`
	Sources []dataset.Source `json:"sources"`
	// Total is what the dataset held when it was checked.
	Total dataset.Counts `json:"total"`
	// After is the last entry up to which everything is confirmed, with the
	// counts up to there. Zero stands for the start.
	After dataset.Position `json:"after"`
}

// differs says in what the dataset and the options of now differ from those of
// the snapshot, or returns "".
func (s snapshot) differs(shape string, sources []dataset.Source) string {
	if s.Shape != shape {
		return "the options are others: " + differentOptions(s.Shape, shape)
	}
	if len(s.Sources) != len(sources) {
		return fmt.Sprintf("it had %d sources and has %d now", len(s.Sources), len(sources))
	}
	for i, source := range s.Sources {
		if changed := source.Changed(sources[i]); changed != "" {
			return changed
		}
	}
	return ""
}

// needsCheck tells whether the identities of the sources are complete only
// after a check: those of sets of files, and of what is read from a pipe.
func (s snapshot) needsCheck() bool {
	return s.Total.Skipped > 0 || slices.ContainsFunc(s.Sources, func(source dataset.Source) bool {
		return source.Files > 0 || source.Name == "-"
	})
}

// differentOptions compares two JSON objects of options.
func differentOptions(before, now string) string {
	var was, is map[string]any
	if json.Unmarshal([]byte(before), &was) != nil || json.Unmarshal([]byte(now), &is) != nil {
		return fmt.Sprintf("%s before, %s now", before, now)
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := fmt.Sprint(was[name]), fmt.Sprint(is[name]); a != b {
			found = append(found, fmt.Sprintf("--%s was %q and is %q", flagName(name), a, b))
		}
	}
	return strings.Join(found, ", ")
}

// flagName turns IDField into id-field.
func flagName(name string) string {
	letters := []rune(name)
	var b strings.Builder
	for i, letter := range letters {
		endsWord := i > 0 && unicode.IsUpper(letter) &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if endsWord {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(letter))
	}
	return b.String()
}
