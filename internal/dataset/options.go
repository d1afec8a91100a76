package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// Format of a source.
type Format string

// The formats. FormatAuto goes by the source's name, and by its content where
// the name says nothing.
const (
	FormatAuto    Format = "auto"
	FormatCSV     Format = "csv"
	FormatTSV     Format = "tsv"
	FormatJSONL   Format = "jsonl"
	FormatParquet Format = "parquet"
	FormatLines   Format = "lines"
	FormatObjects Format = "objects"
)

var formats = []string{"auto", "csv", "tsv", "jsonl", "parquet", "lines", "objects"}

// Where the ID of an item comes from.
const (
	// IDAuto is IDField for rows, IDRow for plain text lines, and IDPath for
	// files and objects.
	IDAuto = "auto"
	// IDField takes the value of the field or column Options.IDField.
	IDField = "field"
	// IDPath takes the path below the source.
	IDPath = "path"
	// IDHash takes a hash of the canonical row, or of the file's bytes.
	IDHash = "hash"
	// IDRow takes the source and the number of the row in it.
	IDRow = "row"
)

var idKinds = []string{IDAuto, IDField, IDPath, IDHash, IDRow}

// What is done about the second item of an ID.
const (
	RefuseDuplicates = "refuse"
	SkipDuplicates   = "skip"
)

// Options says how items are made. The zero value is what Flags has as
// defaults.
type Options struct {
	// Format of all sources; empty means FormatAuto.
	Format Format
	// ID says where item IDs come from; empty means IDAuto.
	ID string
	// IDField is the field or column with the item ID of rows. Empty means id.
	IDField string
	// Columns are the fields or columns of a row that become its payload, in
	// this order; empty means all, in the order of the row.
	Columns []string
	// Delimiter separates the columns of FormatCSV; empty means a comma.
	Delimiter string
	// Include and Exclude choose files below directories, prefixes and globs.
	// A pattern without a slash is held against the last part of the path.
	// No Include means all.
	Include, Exclude []string
	// InlineBelow is a size in bytes: objects in buckets that are smaller are
	// carried in the message, and all others pointed at. 0 points at all.
	// Files of this machine, which workers cannot reach, are always carried.
	InlineBelow int64
	// Spill is a gs://bucket/prefix that takes payloads that are too large for
	// a message; the message points there. Empty means that they are bad rows.
	Spill string
	// OnDuplicate is RefuseDuplicates or SkipDuplicates; empty means refuse.
	OnDuplicate string
	// MaxBadRows is the number of rows that may be bad and are then left out;
	// below 0 means any number.
	MaxBadRows int64
	// Rejects is the file that Check writes bad rows and skipped duplicates
	// to. Empty means none.
	Rejects string
	// Stdin is what the source - reads. Nil means that it cannot be given.
	Stdin io.Reader
}

// Flags adds the flags that fill o.
func (o *Options) Flags(f *pflag.FlagSet) {
	o.Format, o.ID, o.OnDuplicate = FormatAuto, IDAuto, RefuseDuplicates
	f.Var(choice[Format]{&o.Format, formats}, "format", "`format` of every SOURCE: "+strings.Join(formats, ", "))
	f.Var(choice[string]{&o.ID, idKinds}, "id", "`kind` of item IDs: field (see --id-field), path (of the file), hash (of the content), row (source and number of the row), or auto: field for rows, row for lines of text, path for files")
	f.StringVar(&o.IDField, "id-field", "id", "`field` or column with the ID of a row")
	f.StringSliceVar(&o.Columns, "columns", nil, "only these `fields` or columns become the payload, in this order")
	f.StringVar(&o.Delimiter, "delimiter", "", "`character` between the columns of CSV (default a comma)")
	f.StringArrayVar(&o.Include, "include", nil, "only files below a directory, prefix or glob that match `glob`; can be repeated")
	f.StringArrayVar(&o.Exclude, "exclude", nil, "no files that match `glob`; can be repeated")
	f.Var((*byteSize)(&o.InlineBelow), "inline-below", "objects in buckets below this `size`, such as 64KiB, travel in the message; workers fetch all others")
	f.StringVar(&o.Spill, "spill", "", "`gs://bucket/prefix` that takes payloads too large for a message")
	f.Var(choice[string]{&o.OnDuplicate, []string{RefuseDuplicates, SkipDuplicates}}, "on-duplicate", "what to `do` about the second item of an ID: refuse or skip")
	f.Int64Var(&o.MaxBadRows, "max-bad-rows", 0, "`number` of bad rows to leave out before stopping; -1: any number")
	f.StringVar(&o.Rejects, "rejects", "rejects.jsonl", "`file` for the bad rows and duplicates that are left out; written only if there are any")
}

// Validate reports the first option that makes no sense, or nil. Empty fields
// are filled with what they mean.
func (o *Options) Validate() error {
	fill(&o.Format, FormatAuto)
	fill(&o.ID, IDAuto)
	fill(&o.IDField, "id")
	fill(&o.OnDuplicate, RefuseDuplicates)
	switch {
	case !slices.Contains(formats, string(o.Format)):
		return fmt.Errorf("--format: %q: must be one of %s", o.Format, strings.Join(formats, ", "))
	case !slices.Contains(idKinds, o.ID):
		return fmt.Errorf("--id: %q: must be one of %s", o.ID, strings.Join(idKinds, ", "))
	case o.OnDuplicate != RefuseDuplicates && o.OnDuplicate != SkipDuplicates:
		return fmt.Errorf("--on-duplicate: %q: must be one of refuse, skip", o.OnDuplicate)
	case o.InlineBelow < 0:
		return fmt.Errorf("--inline-below: %d: must be 0 or more", o.InlineBelow)
	case o.Spill != "" && !strings.HasPrefix(o.Spill, bucketScheme):
		return fmt.Errorf("--spill: %q: must begin with gs://", o.Spill)
	}
	if o.Delimiter == `\t` {
		o.Delimiter = "\t"
	}
	if o.Spill != "" {
		if _, _, err := splitAddress(o.Spill); err != nil {
			return fmt.Errorf("--spill: %w", err)
		}
	}
	if d := o.Delimiter; d != "" && (utf8.RuneCountInString(d) != 1 || d[0] >= utf8.RuneSelf || strings.ContainsAny(d, "\"\r\n\x00")) {
		return fmt.Errorf("--delimiter: %q: must be one ASCII character, and neither a quote nor a line end", d)
	}
	for _, pattern := range slices.Concat(o.Include, o.Exclude) {
		if err := checkGlob(pattern); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, name := range o.Columns {
		if seen[name] {
			return fmt.Errorf("--columns: %q is named twice", name)
		}
		seen[name] = true
	}
	return nil
}

// Shape is the part of the options that decides which items a dataset has and
// what is in them: to go on with a publish is right only when it is the same.
func (o Options) Shape() string {
	// The error is checked where options come in; what is wrong has a shape
	// all the same.
	_ = o.Validate()
	o.Stdin, o.Rejects, o.MaxBadRows = nil, "", 0
	text, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// choice is a flag that takes one of a few words.
type choice[T ~string] struct {
	value *T
	words []string
}

func (c choice[T]) String() string {
	if c.value == nil { // pflag asks a zero value, too
		return ""
	}
	return string(*c.value)
}

func (c choice[T]) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	*c.value = T(word)
	return nil
}

func (choice[T]) Type() string { return "word" }

// byteSize is a flag that takes a number of bytes.
type byteSize int64

func (b *byteSize) String() string { return fmt.Sprint(int64(*b)) }

func (b *byteSize) Set(text string) error {
	units := []struct {
		suffix string
		factor float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1}}
	for _, unit := range units {
		number, found := strings.CutSuffix(text, unit.suffix)
		if !found {
			continue
		}
		var value float64
		if _, err := fmt.Sscanf(number+"\n", "%g\n", &value); err != nil || value < 0 || value > 1<<50 {
			break
		}
		*b = byteSize(value * unit.factor)
		return nil
	}
	return errors.New("must be a size such as 500, 64KiB or 1MB")
}

func (*byteSize) Type() string { return "size" }
