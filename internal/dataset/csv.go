package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
)

// readCSV reads a header and an item a row.
func readCSV(name string, r io.Reader, opts Options) Entries {
	return func(yield func(Entry, error) bool) {
		limited := &rowLimit{r: r}
		buffered := bufio.NewReaderSize(limited, readBuffer)
		if err := skipBOM(buffered); err != nil {
			yield(Entry{}, fmt.Errorf("%s: %w", name, err))
			return
		}
		t := table{name: name, csv: csv.NewReader(buffered), limit: limited}
		t.csv.ReuseRecord = true
		if err := t.header(opts.IDField); err != nil {
			yield(Entry{}, err)
			return
		}
		for {
			e, err := t.next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// table is a CSV file of which the header has been read.
type table struct {
	name  string
	csv   *csv.Reader
	limit *rowLimit
	// keys are the header's names as they stand in the payload: {"a": and
	// ,"b": and so on.
	keys []string
	// id is the column of the ID.
	id int
	// line is where the last row that was read begins.
	line int
}

func (t *table) header(idField string) error {
	names, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty; a CSV begins with a header line that names its columns", t.name)
	}
	if err != nil {
		return t.explain(err)
	}
	at := Position{File: t.name, Line: 1}
	t.id = -1
	for i, name := range names {
		if err := checkText(name); err != nil {
			return fmt.Errorf("%s: the header: %w", at, err)
		}
		if strings.ContainsRune(name, '\r') {
			return fmt.Errorf("%s: the lines end in CR alone; convert the file first: tr '\\r' '\\n'", at)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s: column %q occurs twice in the header; rename one", at, name)
		}
		if name == idField {
			t.id = i
		}
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		t.keys = append(t.keys, string(append(appendJSON([]byte{open}, name), ':')))
	}
	if t.id < 0 {
		return fmt.Errorf("%s: no column %q in the header (%s); name the column with the ID with --id-field", at, idField, preview([]byte(strings.Join(names, ", "))))
	}
	return nil
}

// next returns the next row, or io.EOF.
func (t *table) next() (Entry, error) {
	t.limit.begin(t.csv.InputOffset())
	values, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return Entry{}, io.EOF
	}
	if err != nil {
		return Entry{}, t.explain(err)
	}
	t.line, _ = t.csv.FieldPos(0)
	at := Position{File: t.name, Line: t.line}
	size := 0
	for i, value := range values {
		if err := checkText(value); err != nil {
			return Entry{}, fmt.Errorf("%s: column %d: %w", at, i+1, err)
		}
		size += len(t.keys[i]) + len(value) + 2
	}
	data := make([]byte, 0, size+1)
	for i, value := range values {
		data = appendJSON(append(data, t.keys[i]...), value)
	}
	// The values share memory with the next row.
	id := strings.Clone(values[t.id])
	return Entry{
		Item:     item.Item{Key: item.Key{ItemID: id}, ContentType: item.ContentTypeJSON, Data: append(data, '}')},
		Position: at,
	}, nil
}

// explain names file, line and cause.
func (t *table) explain(err error) error {
	var parse *csv.ParseError
	var long errLongLine
	switch {
	case errors.As(err, &long):
		return fmt.Errorf("%s: after line %d: %w; a quote that is never closed makes such rows", t.name, t.line, long)
	case !errors.As(err, &parse):
		return fmt.Errorf("read %s: %w", t.name, err)
	case errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("%s:%d: the row does not have the %d columns of the header", t.name, parse.StartLine, len(t.keys))
	}
	return fmt.Errorf("%s:%d: column %d: the row is not CSV: %w", t.name, parse.StartLine, parse.Column, parse.Err)
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%q is not valid UTF-8", preview([]byte(s)))
	}
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%q holds a NUL byte", preview([]byte(s)))
	}
	return nil
}

// rowLimit fails a row that does not end, which the CSV reader would collect
// in memory up to the end of the file.
type rowLimit struct {
	r           io.Reader
	read, start int64
}

// begin says at which offset the next row begins.
func (l *rowLimit) begin(offset int64) { l.start = offset }

func (l *rowLimit) Read(p []byte) (int, error) {
	// What has been read and is not of this row yet is at most one buffer.
	if l.read-l.start > MaxPayload+readBuffer {
		return 0, errLongLine{MaxPayload}
	}
	n, err := l.r.Read(p)
	l.read += int64(n)
	return n, err
}
