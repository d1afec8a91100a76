package dataset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// rejectsFile takes what is left out, a JSON object a line. It is made when
// there is something to write, and appears under its name when it is complete.
type rejectsFile struct {
	path string
	file *os.File
	out  *bufio.Writer
}

// reject is a line of the file.
type reject struct {
	File  string `json:"file"`
	Row   int64  `json:"row,omitempty"`
	Line  int    `json:"line,omitempty"`
	Error string `json:"error"`
	// Raw is the row as it stands in the source, or RawBase64 when it is not
	// UTF-8.
	Raw       string `json:"raw,omitempty"`
	RawBase64 []byte `json:"raw_b64,omitempty"`
}

func (r *rejectsFile) add(entry Entry) error {
	if r.path == "" {
		return nil
	}
	if r.file == nil {
		f, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+".*")
		if err != nil {
			return fmt.Errorf("write the rejects (--rejects says where): %w", err)
		}
		r.file, r.out = f, bufio.NewWriter(f)
	}
	line := reject{File: entry.Position.File, Row: entry.Position.Row, Line: entry.Position.Line, Error: entry.Problem.Error()}
	var raw []byte
	if bad, is := errors.AsType[*BadRow](entry.Problem); is {
		raw, line.Error = bad.Raw, bad.Err.Error()
	}
	if utf8.Valid(raw) {
		line.Raw = string(raw)
	} else {
		line.RawBase64 = raw
	}
	text := json.NewEncoder(r.out)
	text.SetEscapeHTML(false)
	if err := text.Encode(line); err != nil {
		return fmt.Errorf("write the rejects to %s: %w", r.path, err)
	}
	return nil
}

// finish gives the file its name.
func (r *rejectsFile) finish() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.out.Flush(), r.file.Chmod(0o644), r.file.Close())
	if err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return fmt.Errorf("write the rejects to %s: %w", r.path, err)
	}
	r.file = nil
	return nil
}

// abandon takes away a file that is not complete.
func (r *rejectsFile) abandon() {
	if r.file != nil {
		_ = r.file.Close() // it is thrown away
		_ = os.Remove(r.file.Name())
	}
}
