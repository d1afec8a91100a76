package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// readBuffer is the size of reads from files and buckets.
const readBuffer = 256 << 10

// errUTF16 says that a text file is in an encoding that is not read.
var errUTF16 = errors.New("the file is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")

// skipBOM moves past the UTF-8 byte order mark that Excel writes, and refuses
// UTF-16.
func skipBOM(r *bufio.Reader) error {
	// A short file gives an error with what there is.
	head, err := r.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errUTF16
	case bytes.Equal(head, []byte("\xef\xbb\xbf")):
		_, err = r.Discard(3)
		return err
	}
	return nil
}

// errLongLine says that a line holds more than limit bytes.
type errLongLine struct{ limit int }

func (e errLongLine) Error() string {
	return fmt.Sprintf("the row has more than %d bytes, the most that a message carries", e.limit)
}

// readLine returns the next line without its end, however long it is up to
// limit, or io.EOF. The line belongs to the caller.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit+len("\r\n"):
			return nil, errLongLine{limit}
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			err = nil
		}
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
}
