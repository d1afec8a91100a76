package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/spotbatch/spotbatch/internal/item"
)

// row is a row as its reader found it.
type row struct {
	// data is the payload; it belongs to the row.
	data []byte
	// id is the value of the ID field, if the reader was asked for it.
	id string
	// line is where the row begins, offset and next are where the one after it
	// does; all 0 in formats without lines.
	line, next int
	offset     int64
	// bad says why this is no item; raw is what stands in the file then.
	bad error
	raw []byte
}

// rowReader reads the rows of one file.
type rowReader interface {
	// next returns the next row, or io.EOF.
	next() (row, error)
	// skip moves past the row at the position.
	skip(ctx context.Context, after Position) error
	// close gives back what the reader itself holds.
	close()
}

// want says what a reader makes of a row.
type want struct {
	// idField is the field whose value is the ID; empty means none.
	idField   string
	columns   []string
	delimiter byte
}

// rowSource is a source with an item a row.
type rowSource struct {
	file file
	opts Options
	temp *tempFiles
}

func (s rowSource) identity() Source {
	return s.file.source
}

func (s rowSource) entries(ctx context.Context, after Position, _ bool) Entries {
	return func(yield func(Entry, error) bool) {
		err := s.read(ctx, after, yield)
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, err)
		}
	}
}

// errStop says that nobody wants more.
var errStop = errors.New("stop")

func (s rowSource) read(ctx context.Context, after Position, yield func(Entry, error) bool) error {
	in, err := openInput(ctx, s.file)
	if err != nil {
		return err
	}
	defer in.close()
	format, err := s.format(in)
	if err != nil {
		return err
	}
	kind, err := idOfRows(s.opts.ID, format)
	if err != nil {
		return fmt.Errorf("%s: %w", s.file.name, err)
	}
	w := want{columns: s.opts.Columns}
	if kind == IDField {
		w.idField = s.opts.IDField
	}
	reader, err := s.open(ctx, in, format, w)
	if err != nil {
		return s.at(err)
	}
	defer reader.close()
	if after.Row > 0 {
		if err := reader.skip(ctx, after); err != nil {
			return fmt.Errorf("%s: go on after row %d: %w", s.file.name, after.Row, err)
		}
	}
	contentType := item.ContentTypeJSON
	if format == FormatLines {
		contentType = "text/plain"
	}
	for number := after.Row + 1; ; number++ {
		r, err := reader.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := Position{File: s.file.name, Row: number, Line: r.line, Offset: r.offset, NextLine: r.next}
		if err != nil {
			return s.at(fmt.Errorf("row %d: %w", number, err))
		}
		if r.bad != nil {
			if !yield(Entry{Position: at}, &BadRow{At: at, Err: r.bad, Raw: r.raw}) {
				return errStop
			}
			continue
		}
		e := Entry{Item: item.Item{ContentType: contentType, Data: r.data}, Position: at}
		switch kind {
		case IDField:
			e.ItemID = r.id
		case IDHash:
			e.ItemID = hashRow(r.data, format)
		case IDRow:
			e.ItemID = s.file.id + ":" + strconv.FormatInt(number, 10)
		}
		if !yield(e, nil) {
			return errStop
		}
	}
}

// at names the place of an error that ends the file.
func (s rowSource) at(err error) error {
	if on, is := errors.AsType[atLine](err); is {
		return fmt.Errorf("%s:%d: %w", s.file.name, on.line, on.error)
	}
	return fmt.Errorf("%s: %w", s.file.name, err)
}

// idOfRows says what the ID of a row is when the user asks for kind.
func idOfRows(kind string, format Format) (string, error) {
	switch {
	case kind == IDPath:
		return "", errors.New("--id path is for files that are items; rows have --id field, hash or row")
	case kind == IDField && format == FormatLines:
		return "", errors.New("lines of text have no fields; give --id row or --id hash")
	case kind != IDAuto:
		return kind, nil
	case format == FormatLines:
		return IDRow, nil
	}
	return IDField, nil
}

// extensions of rows, without those of compression.
var extensions = map[string]Format{
	".jsonl": FormatJSONL, ".ndjson": FormatJSONL, ".json": FormatJSONL,
	".csv": FormatCSV, ".tsv": FormatTSV, ".tab": FormatTSV,
	".parquet": FormatParquet, ".pq": FormatParquet,
	".txt": FormatLines, ".lines": FormatLines,
}

// formatOfName goes by the extension; "" when it says nothing.
func formatOfName(name string) Format {
	name = strings.ToLower(name)
	for _, ext := range []string{".gz", ".gzip", ".zst", ".zstd"} {
		if cut, found := strings.CutSuffix(name, ext); found {
			name = cut
			break
		}
	}
	return extensions[path.Ext(name)]
}

// format is what the user says, or the name, or the content. A Parquet file is
// one whatever its name is.
func (s rowSource) format(in *input) (Format, error) {
	if s.opts.Format != FormatAuto {
		return s.opts.Format, nil
	}
	head, err := in.head(readBuffer)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.file.name, err)
	}
	if bytes.HasPrefix(head, magicParquet) {
		return FormatParquet, nil
	}
	if known := formatOfName(s.file.name); known != "" {
		return known, nil
	}
	if text := bytes.TrimSpace(bytes.TrimPrefix(head, bom)); bytes.HasPrefix(text, []byte("{")) {
		return FormatJSONL, nil
	}
	return "", fmt.Errorf("%s: unknown format %q; say --format csv, tsv, jsonl, parquet or lines for a file of rows, or --format objects for a file that is one item",
		s.file.name, path.Ext(s.file.name))
}

func (s rowSource) open(ctx context.Context, in *input, format Format, w want) (rowReader, error) {
	if format == FormatParquet {
		return openParquet(ctx, in, s.temp, w)
	}
	lines, err := newLineReader(in.Reader)
	if err != nil {
		return nil, err
	}
	if lines.onlyCR() {
		return nil, errCR
	}
	switch text := (textReader{lines: lines, in: in, want: w}); format {
	case FormatCSV, FormatTSV:
		w.delimiter = ','
		if format == FormatTSV {
			w.delimiter = '\t'
		}
		if s.opts.Delimiter != "" {
			w.delimiter = s.opts.Delimiter[0]
		}
		text.want = w
		return openCSV(text)
	case FormatLines:
		if len(w.columns) > 0 {
			return nil, errors.New("lines of text have no columns to choose with --columns")
		}
		return textRows{text}, nil
	default:
		return &jsonReader{textReader: text}, nil
	}
}

// textReader is what the readers of text share.
type textReader struct {
	lines *lineReader
	in    *input
	want  want
}

func (t textReader) skip(ctx context.Context, after Position) error {
	return t.lines.seek(ctx, t.in, after)
}

func (textReader) close() {}

// textRows reads an item a line.
type textRows struct{ textReader }

func (t textRows) next() (row, error) {
	for {
		number := t.lines.number
		line, size, err := t.lines.next()
		if err != nil {
			return row{}, err
		}
		r := row{line: number, next: t.lines.number, offset: t.lines.offset}
		text := trimEnd(line)
		switch {
		case size > maxRow:
			r.bad = errLong(size)
		case len(bytes.TrimSpace(text)) == 0:
			continue
		default:
			r.bad = checkText(text)
		}
		r.data = bytes.Clone(text)
		if r.bad != nil {
			r.data, r.raw = nil, r.data
		}
		return r, nil
	}
}
