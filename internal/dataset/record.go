package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// record is one row of a table as it stands there. It is used anew for each.
type record struct {
	// raw are its lines, without the last line end, or the begin of them.
	raw    []byte
	fields []field
	// plain holds the text of quoted fields without their quotes.
	plain []byte
	// bad says why the fields are not to be used.
	bad error
	// joined holds the lines of a record over several.
	joined []byte
}

// field is a part of raw, or, when quoted, of plain.
type field struct {
	from, to int
	quoted   bool
}

func (f field) size() int { return f.to - f.from }

// field returns the text of a field, valid until the next record.
func (r *record) field(i int) []byte {
	f := r.fields[i]
	if f.quoted {
		return r.plain[f.from:f.to]
	}
	return r.raw[f.from:f.to]
}

// readRecord reads the next record into t.record, passing over blank lines,
// and returns the line on which it begins, or io.EOF. An error means that
// nothing more can be read.
func (t *csvReader) readRecord() (int, error) {
	r := &t.record
	for {
		number := t.lines.number
		line, size, err := t.lines.next()
		if err != nil {
			return number, err
		}
		r.raw, r.bad = trimEnd(line), nil
		r.fields, r.plain = r.fields[:0], r.plain[:0]
		if len(r.raw) == 0 {
			continue
		}
		if bytes.IndexByte(line, '"') >= 0 {
			return number, t.quoted(number, line, size)
		}
		if size > maxRow {
			r.bad = errLong(size)
			return number, nil
		}
		r.split(t.want.delimiter)
		return number, nil
	}
}

// split finds the fields of a record without quotes.
func (r *record) split(delimiter byte) {
	from := 0
	for {
		n := bytes.IndexByte(r.raw[from:], delimiter)
		if n < 0 {
			r.fields = append(r.fields, field{from: from, to: len(r.raw)})
			return
		}
		r.fields = append(r.fields, field{from: from, to: from + n})
		from += n + 1
	}
}

// quoted reads a record with quotes, which may go over several lines, of which
// the first is given.
func (t *csvReader) quoted(number int, line []byte, size int64) error {
	r := &t.record
	r.joined = r.joined[:0]
	var total int64
	for inside := false; ; {
		if size > maxRow {
			return atLine{t.lines.number - 1, fmt.Errorf("the line has %d bytes, and quotes; at most %d are read, so that nobody can tell where its row ends", size, maxRow)}
		}
		if total += size; total > maxRow {
			// Only the quotes matter from here on.
			r.plain, r.fields = r.plain[:0], r.fields[:0]
			inside = r.scan(line, 0, inside, t.want.delimiter)
		} else {
			base := len(r.joined)
			r.joined = append(r.joined, line...)
			inside = r.scan(r.joined[base:], base, inside, t.want.delimiter)
		}
		if !inside {
			break
		}
		var err error
		line, size, err = t.lines.next()
		if errors.Is(err, io.EOF) {
			return atLine{number, errOpenQuote}
		}
		if err != nil {
			return err
		}
	}
	r.raw = trimEnd(r.joined)
	if total > maxRow {
		r.bad = errLong(total)
	}
	return nil
}

var (
	errOpenQuote  = errors.New(`a quote in this row is never closed, so that nobody can tell where the rows after it begin; close it`)
	errBareQuote  = errors.New(`the row is not CSV: a quote inside a field that does not begin with one; write "a ""b"" c"`)
	errAfterQuote = errors.New(`the row is not CSV: text after the quote that closes a field; a quote inside quotes is written twice`)
)

// scan finds the fields of a line that stands at base in raw, and tells whether
// the line ends inside quotes, as it began inside. A record that is bad ends
// with its line.
func (r *record) scan(line []byte, base int, inside bool, delimiter byte) bool {
	end := len(trimEnd(line))
	// A field that goes on from the line before was put there with its begin.
	for i := 0; ; {
		if !inside {
			if i < end && line[i] == '"' {
				r.fields = append(r.fields, field{from: len(r.plain), quoted: true})
				inside = true
				i++
				continue
			}
			n := bytes.IndexByte(line[i:end], delimiter)
			to := i + n
			if n < 0 {
				to = end
			}
			if bytes.IndexByte(line[i:to], '"') >= 0 {
				r.bad = fmt.Errorf("column %d: %w", len(r.fields)+1, errBareQuote)
				return false
			}
			r.fields = append(r.fields, field{from: base + i, to: base + to})
			if n < 0 {
				return false
			}
			i = to + 1
			continue
		}
		n := bytes.IndexByte(line[i:], '"')
		if n < 0 {
			r.plain = append(r.plain, line[i:]...)
			return true
		}
		r.plain = append(r.plain, line[i:i+n]...)
		i += n + 1
		if i < len(line) && line[i] == '"' {
			r.plain = append(r.plain, '"')
			i++
			continue
		}
		inside = false
		if last := len(r.fields) - 1; last >= 0 {
			r.fields[last].to = len(r.plain)
		}
		switch {
		case i >= end:
			return false
		case line[i] != delimiter:
			r.bad = fmt.Errorf("column %d: %w", len(r.fields), errAfterQuote)
			return false
		}
		i++
	}
}
