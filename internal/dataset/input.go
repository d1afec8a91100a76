package dataset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// readBuffer is the size of reads from files and buckets.
const readBuffer = 256 << 10

// maxZstdWindow is what `zstd --ultra -22` writes at most.
const maxZstdWindow = 128 << 20

// Signatures of files by their first bytes.
var (
	magicGzip    = []byte("\x1f\x8b\x08")
	magicZstd    = []byte("\x28\xb5\x2f\xfd")
	magicParquet = []byte("PAR1")
	foreign      = []struct{ magic, cure string }{
		{"BZh91AY&SY", "is compressed with bzip2; convert it first: bzcat FILE | gzip"},
		{"\xfd7zXZ\x00", "is compressed with xz; convert it first: xzcat FILE | gzip"},
		{"PK\x03\x04", "is a ZIP archive (or an Excel workbook); unpack it, or save the sheet as CSV UTF-8"},
		{"\xff\xfe", "is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"},
		{"\xfe\xff", "is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"},
		{"Obj\x01", "is an Avro file, which is not read; convert it to Parquet or JSON Lines"},
	}
)

// input is the content of a file, decompressed.
type input struct {
	*bufio.Reader
	file file
	// plain means that the file is not compressed: an offset in the content is
	// one in the file.
	plain   bool
	closers []func() error
}

// openInput opens a file and takes off its compression, which shows in its
// content, whatever its name and its metadata say.
func openInput(ctx context.Context, f file) (*input, error) {
	raw, err := f.open(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.name, err)
	}
	in := &input{Reader: bufio.NewReaderSize(raw, readBuffer), file: f, plain: true, closers: []func() error{raw.Close}}
	// An object that was compressed before it was stored compressed is so
	// twice.
	for range 3 {
		again, err := in.decompress()
		if err != nil {
			in.close()
			return nil, fmt.Errorf("read %s: %w", f.name, cut(err))
		}
		if !again {
			break
		}
	}
	head, err := in.head(10)
	for _, other := range foreign {
		if err == nil && bytes.HasPrefix(head, []byte(other.magic)) {
			err = errors.New("the file " + other.cure)
		}
	}
	if err != nil {
		in.close()
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return in, nil
}

// decompress puts a decompressor between, if the content asks for one.
func (in *input) decompress() (bool, error) {
	head, err := in.head(4)
	if err != nil {
		return false, err
	}
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(in.Reader)
		if err != nil {
			return false, err
		}
		in.closers = append(in.closers, z.Close)
		in.Reader = bufio.NewReaderSize(z, readBuffer)
	case bytes.Equal(head, magicZstd), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte("\x2a\x4d\x18")):
		z, err := zstd.NewReader(in.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return false, err
		}
		in.closers = append(in.closers, func() error { z.Close(); return nil })
		in.Reader = bufio.NewReaderSize(z, readBuffer)
	default:
		return false, nil
	}
	in.plain = false
	return true, nil
}

// head returns the next n bytes, or what there is.
func (in *input) head(n int) ([]byte, error) {
	head, err := in.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cut(err)
	}
	return head, nil
}

// at moves to an offset of the content, from its start.
func (in *input) at(ctx context.Context, offset int64) error {
	if !in.plain {
		// What is between must be decompressed, but not looked at.
		if _, err := io.CopyN(io.Discard, in.Reader, offset); err != nil {
			return cut(err)
		}
		return nil
	}
	raw, err := in.file.open(ctx, offset)
	if err != nil {
		return err
	}
	in.closers = append(in.closers, raw.Close)
	in.Reset(raw)
	return nil
}

// close ends reading. To close what was only read cannot lose anything.
func (in *input) close() {
	for _, closer := range slices.Backward(in.closers) {
		_ = closer()
	}
}

// gunzip unpacks a stream if it is packed.
func gunzip(raw io.ReadCloser) (io.ReadCloser, error) {
	in := &input{Reader: bufio.NewReaderSize(raw, 32<<10), closers: []func() error{raw.Close}}
	if _, err := in.decompress(); err != nil {
		in.close()
		return nil, cut(err)
	}
	return unpacked{in}, nil
}

// unpacked is an input that is closed like a file.
type unpacked struct{ *input }

func (u unpacked) Close() error {
	u.close()
	return nil
}

// cut says what an end in the middle means.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file is cut: its compressed data ends too early; copy it again: %w", err)
	}
	return err
}

// exact fails when the content is not as long as the file was said to be: a
// short answer of a server would look like the end of the file.
type exact struct {
	io.ReadCloser
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return n, errors.New("the file has grown while it was read; publish files that nobody writes to")
	case e.left > 0 && errors.Is(err, io.EOF):
		return n, fmt.Errorf("the file ended %d bytes too early; it was changed while it was read, or the connection broke", e.left)
	}
	return n, err
}
