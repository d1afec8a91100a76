package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// csvReader reads a table whose first row names the columns, as RFC 4180 has
// it, and keeps every byte between the quotes: encoding/csv would turn CR LF
// there into LF.
type csvReader struct {
	textReader
	// columns is the number of columns in the header; chosen are those of the
	// payload, and keys what stands before each there: {"a": and ,"b": and so
	// on.
	columns int
	names   []string
	chosen  []int
	keys    []string
	// id is the column of the ID, or -1.
	id int

	record record
}

// openCSV reads the header.
func openCSV(text textReader) (*csvReader, error) {
	t := &csvReader{textReader: text, id: -1}
	line, err := t.readRecord()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; a CSV begins with a header line that names its columns")
	}
	if err == nil && t.record.bad != nil {
		err = t.record.bad
	}
	if err == nil {
		err = checkText(t.record.raw)
	}
	if err != nil {
		return nil, atLine{line, fmt.Errorf("the header: %w", err)}
	}
	for i := range t.record.fields {
		name := string(t.record.field(i))
		if slices.Contains(t.names, name) {
			return nil, atLine{line, fmt.Errorf("column %q occurs twice in the header; rename one", name)}
		}
		t.names = append(t.names, name)
	}
	t.columns = len(t.names)
	if name := t.want.idField; name != "" {
		if t.id = slices.Index(t.names, name); t.id < 0 {
			return nil, t.noColumn(line, name, "name the column with the ID with --id-field")
		}
	}
	return t, t.choose(line)
}

// choose says which columns make the payload.
func (t *csvReader) choose(line int) error {
	columns := t.want.columns
	if len(columns) == 0 {
		columns = t.names
	}
	for i, name := range columns {
		at := slices.Index(t.names, name)
		if at < 0 {
			return t.noColumn(line, name, "name columns that it has with --columns")
		}
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		t.chosen = append(t.chosen, at)
		t.keys = append(t.keys, string(append(appendJSON([]byte{open}, name), ':')))
	}
	return nil
}

func (t *csvReader) noColumn(line int, name, cure string) error {
	if t.columns == 1 {
		for _, other := range ";\t|," {
			if byte(other) != t.want.delimiter && strings.ContainsRune(t.names[0], other) {
				cure = fmt.Sprintf("its columns seem to be separated by %q: say --delimiter %q", other, other)
			}
		}
	}
	return atLine{line, fmt.Errorf("no column %q in the header (%s); %s", name, preview([]byte(strings.Join(t.names, ", "))), cure)}
}

func (t *csvReader) next() (row, error) {
	line, err := t.readRecord()
	if err != nil {
		return row{}, err
	}
	r := row{line: line, next: t.lines.number, offset: t.lines.offset, bad: t.record.bad}
	if r.bad == nil {
		r.bad = t.check()
	}
	if r.bad != nil {
		if last := t.lines.number - 1; last > line {
			r.bad = fmt.Errorf("%w (the row ends on line %d)", r.bad, last)
		}
		r.raw = bytes.Clone(t.record.raw)
		return r, nil
	}
	size := 1
	for i, at := range t.chosen {
		size += len(t.keys[i]) + t.record.fields[at].size() + 2
	}
	data := make([]byte, 0, size)
	for i, at := range t.chosen {
		data = appendJSON(append(data, t.keys[i]...), t.record.field(at))
	}
	data = append(data, '}')
	r.data = data
	if t.id >= 0 {
		r.id = string(t.record.field(t.id))
	}
	return r, nil
}

// check holds the record against the header, and its text against the rules.
func (t *csvReader) check() error {
	if have := len(t.record.fields); have != t.columns {
		return fmt.Errorf("the row has %d columns, the header has %d", have, t.columns)
	}
	if checkText(t.record.raw) == nil {
		return nil
	}
	for i := range t.columns {
		if err := checkText(t.record.field(i)); err != nil {
			return fmt.Errorf("column %d (%s): %w", i+1, t.names[i], err)
		}
	}
	return checkText(t.record.raw)
}
