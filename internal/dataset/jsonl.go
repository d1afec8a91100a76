package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
)

// readJSONL reads an object a line.
func readJSONL(name string, r io.Reader, opts Options) Entries {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewReaderSize(r, readBuffer)
		if err := skipBOM(lines); err != nil {
			yield(Entry{}, fmt.Errorf("%s: %w", name, err))
			return
		}
		for number := 1; ; number++ {
			at := Position{File: name, Line: number}
			line, err := readLine(lines, MaxPayload)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			e := Entry{Item: item.Item{ContentType: item.ContentTypeJSON, Data: line}, Position: at}
			if err == nil {
				e.ItemID, err = rowID(line, opts.IDField)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", at, err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// rowID checks that row is a JSON object and returns its ID.
func rowID(row []byte, field string) (string, error) {
	if !json.Valid(row) {
		return "", notJSON(row)
	}
	if !utf8.Valid(row) {
		return "", errors.New("the row is not valid UTF-8")
	}
	members := bytes.TrimSpace(row)
	if members[0] != '{' {
		return "", fmt.Errorf("the row is not a JSON object: it begins with %q; write one object a line (jq -c '.[]' splits an array)", preview(row))
	}
	value, err := member(members, field)
	if err != nil {
		return "", err
	}
	return idText(value, field)
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
		var id string
		if err := json.Unmarshal(value, &id); err != nil {
			return "", fmt.Errorf("read field %q: %w", field, err)
		}
		// Half a surrogate pair becomes U+FFFD, and different IDs the same.
		if bytes.ContainsRune([]byte(id), utf8.RuneError) && !bytes.ContainsRune(value, utf8.RuneError) {
			return "", fmt.Errorf("field %q is %s, which is not valid Unicode", field, value)
		}
		return id, nil
	case c == '-', '0' <= c && c <= '9':
		return string(value), nil
	case c == 'n':
		return "", fmt.Errorf("field %q is null; give every row an ID, or name another field with --id-field", field)
	}
	return "", fmt.Errorf("field %q is %s; an ID must be a text or a number", field, preview(value))
}

// preview returns the start of a row for an error message.
func preview(row []byte) string {
	const most = 40
	if len(row) > most {
		return string(row[:most]) + "..."
	}
	return string(row)
}
