package dataset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxRow is the size of the largest row that is read, in bytes. It is beyond
// what a message carries: Options.Columns makes rows smaller, and
// Options.Spill takes larger ones.
const maxRow = 32 << 20

var (
	errUTF16 = errors.New("the file is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
	errCR    = errors.New("the lines end in CR alone; convert the file first: tr '\\r' '\\n'")
	bom      = []byte("\xef\xbb\xbf")
)

// lineReader splits a text into lines, of any length.
type lineReader struct {
	r *bufio.Reader
	// offset and number are those of the next line, in bytes and from 1.
	offset int64
	number int
	long   []byte
}

// newLineReader starts at the content's begin, past the byte order mark that
// Excel writes.
func newLineReader(r *bufio.Reader) (*lineReader, error) {
	l := &lineReader{r: r, number: 1}
	head, err := r.Peek(readBuffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cut(err)
	}
	wide := len(head) >= 4 && (head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0 || head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0)
	if wide || bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, errUTF16
	}
	if bytes.HasPrefix(head, bom) {
		l.offset = int64(len(bom))
		_, err := r.Discard(len(bom))
		return l, err
	}
	return l, nil
}

// onlyCR tells whether the text at hand has line ends of old Macintoshes.
func (l *lineReader) onlyCR() bool {
	head, _ := l.r.Peek(readBuffer) // whatever is wrong shows when it is read
	at := bytes.IndexByte(head, '\r')
	return at >= 0 && at < len(head)-1 && bytes.IndexByte(head, '\n') < 0
}

// seek moves to the line with this offset and number.
func (l *lineReader) seek(ctx context.Context, in *input, after Position) error {
	if after.Offset < l.offset {
		return fmt.Errorf("position %d is before the first row", after.Offset)
	}
	offset := after.Offset
	if !in.plain {
		offset -= l.offset // in goes on from where we are
	}
	l.offset, l.number = after.Offset, after.NextLine
	return in.at(ctx, offset)
}

// next returns the next line with its end, as it stands, valid until the next
// call, or io.EOF. Of a line of more than maxRow bytes it returns the begin;
// size is that of the whole.
func (l *lineReader) next() (line []byte, size int64, err error) {
	line, err = l.r.ReadSlice('\n')
	size = int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			var part []byte
			part, err = l.r.ReadSlice('\n')
			size += int64(len(part))
			if len(l.long) <= maxRow {
				l.long = append(l.long, part...)
			}
		}
		line = l.long
	}
	if errors.Is(err, io.EOF) && size > 0 {
		err = nil
	}
	if err != nil {
		return nil, 0, cut(err)
	}
	l.offset += size
	l.number++
	return line, size, nil
}

// trimEnd takes the line end off.
func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// atLine is an error on a line after which nothing more can be read.
type atLine struct {
	line int
	error
}

func (e atLine) Unwrap() error { return e.error }

// errLong says that a row is too long to be read.
func errLong(size int64) error {
	return fmt.Errorf("the row has %d bytes; at most %d are read", size, maxRow)
}

// checkText refuses what no text holds, and what would break later: Pub/Sub
// attributes and JSON must be valid UTF-8.
func checkText(s []byte) error {
	if !utf8.Valid(s) {
		return fmt.Errorf("%q is not valid UTF-8", preview(s))
	}
	if bytes.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%q holds a NUL byte", preview(s))
	}
	return nil
}
