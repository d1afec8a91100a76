package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads an object a line.
type jsonReader struct{ textReader }

func (t *jsonReader) next() (row, error) {
	for {
		number := t.lines.number
		line, size, err := t.lines.next()
		if err != nil {
			return row{}, err
		}
		r := row{line: number, next: t.lines.number, offset: t.lines.offset}
		text := trimEnd(line)
		if size > maxRow {
			r.bad, r.raw = errLong(size), bytes.Clone(text[:min(len(text), maxRow)])
			return r, nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		r.data = bytes.Clone(text)
		if r.bad = t.fill(&r); r.bad != nil {
			r.raw, r.data = r.data, nil
		}
		return r, nil
	}
}

// fill checks the row and takes from it what is wanted.
func (t *jsonReader) fill(r *row) error {
	if !validJSON(r.data) {
		return notJSON(r.data)
	}
	if !utf8.Valid(r.data) {
		return errors.New("the row is not valid UTF-8")
	}
	object := bytes.TrimSpace(r.data)
	if object[0] != '{' {
		return fmt.Errorf("the row is not a JSON object: it begins with %q; write one object a line (jq -c '.[]' splits an array)", preview(object))
	}
	if t.want.idField != "" {
		value, err := member(object, t.want.idField)
		if err == nil && value == nil {
			err = fmt.Errorf("the row has no field %q; name the field with the ID with --id-field", t.want.idField)
		}
		if err == nil {
			r.id, err = idText(value, t.want.idField)
		}
		if err != nil {
			return err
		}
	}
	if len(t.want.columns) == 0 {
		return nil
	}
	// Rows of JSON Lines often leave out what is null; so does the payload.
	chosen := []byte{'{'}
	for _, name := range t.want.columns {
		value, err := member(object, name)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if len(chosen) > 1 {
			chosen = append(chosen, ',')
		}
		chosen = append(append(appendJSON(chosen, name), ':'), value...)
	}
	chosen = append(chosen, '}')
	r.data = chosen
	return nil
}

// notJSON says what is wrong with row.
func notJSON(row []byte) error {
	var anything any
	err := json.Unmarshal(row, &anything)
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		return fmt.Errorf("the row is not JSON at byte %d: %w; it begins with %q", syntax.Offset, err, preview(row))
	}
	return fmt.Errorf("the row is not JSON: it begins with %q", preview(row))
}

// idText turns the value of the ID field into an ID. Numbers keep their text:
// what the dataset writes is what the result is found by.
func idText(value []byte, field string) (string, error) {
	switch c := value[0]; {
	case c == '"':
		id, exact := unquote(value)
		if !exact {
			return "", fmt.Errorf("field %q is %s, which is not valid Unicode", field, preview(value))
		}
		return id, nil
	case c == '-', '0' <= c && c <= '9':
		return string(value), nil
	case c == 'n':
		return "", fmt.Errorf("field %q is null; give every row an ID, or name another field with --id-field", field)
	}
	return "", fmt.Errorf("field %q is %s; an ID must be a text or a number", field, preview(value))
}

// unquote returns the text of a valid JSON string. It is not exact when half a
// surrogate pair has become U+FFFD, and different texts the same.
func unquote(quoted []byte) (text string, exact bool) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), true
	}
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "", false
	}
	return text, paired(quoted)
}

// paired tells whether every escaped half of a surrogate pair of a valid JSON
// string has its other half.
func paired(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		if i++; quoted[i] != 'u' {
			continue
		}
		r := escaped(quoted[i-1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if rest := quoted[i+1:]; len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' || utf16.DecodeRune(r, escaped(rest)) == utf8.RuneError {
			return false
		}
		i += 6
	}
	return true
}

// escaped returns the unit of an escape, such as \u00e4.
func escaped(text []byte) rune {
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(unit)
}

// preview returns the start of a row for an error message.
func preview(row []byte) string {
	const most = 40
	if len(row) > most {
		return string(row[:most]) + "..."
	}
	return string(row)
}
