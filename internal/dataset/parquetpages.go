package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The library believes what a file says of its own sizes, and a broken file can
// say anything: memory is gone before there is an error. What is checked here
// is checked before the library reads it.
const (
	// maxFooter and maxPage are bytes; writers cut pages at 1 MB, and the
	// largest ones seen hold a whole row group of a column.
	maxFooter = 256 << 20
	maxPage   = 1 << 30
	// maxPageHeader bounds a header, whose statistics may hold two whole values.
	maxPageHeader = 256 << 20
	// maxExpansion is beyond what any of the compressions reaches.
	maxExpansion = 100_000
)

var errPages = errors.New("the file is not right Parquet, or cut")

// checkFooter checks begin and end of a file.
func checkFooter(at io.ReaderAt, size int64) error {
	var head [4]byte
	var tail [8]byte
	if size < int64(len(head)+len(tail)) {
		return fmt.Errorf("%w: it has %d bytes", errPages, size)
	}
	_, err := at.ReadAt(head[:], 0)
	if err == nil {
		_, err = at.ReadAt(tail[:], size-int64(len(tail)))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(head[:]) == "PARE" || string(tail[4:]) == "PARE":
		return errors.New("the file is encrypted Parquet, which is not read")
	case string(head[:]) != "PAR1" || string(tail[4:]) != "PAR1":
		return fmt.Errorf("%w: it does not begin and end with PAR1", errPages)
	case footer > min(maxFooter, size-int64(len(head)+len(tail))):
		return fmt.Errorf("%w: a footer of %d bytes in a file of %d", errPages, footer, size)
	}
	return nil
}

// pageChecker walks over the pages of column chunks.
type pageChecker struct {
	at   io.ReaderAt
	size int64
	// reader, packed and unpacked are used anew for each page.
	reader           *bufio.Reader
	packed, unpacked []byte
}

// check reads the page headers of a column chunk.
func (p *pageChecker) check(chunk *format.ColumnMetaData) error {
	at := chunk.DataPageOffset
	if d := chunk.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	end := at + chunk.TotalCompressedSize
	if at < 4 || chunk.TotalCompressedSize < 0 || end > p.size-8 {
		return fmt.Errorf("%w: a column of %d bytes at %d", errPages, chunk.TotalCompressedSize, at)
	}
	var values int64
	for values < chunk.NumValues {
		if at >= end {
			return fmt.Errorf("%w: a column of %d values has only %d", errPages, chunk.NumValues, values)
		}
		header, length, err := p.header(at, end)
		if err != nil {
			return err
		}
		at += length
		if err := p.page(chunk, header, at, end); err != nil {
			return err
		}
		at += int64(header.CompressedPageSize)
		switch {
		case header.DataPageHeader.Valid:
			values += int64(header.DataPageHeader.V.NumValues)
		case header.DataPageHeaderV2.Valid:
			values += int64(header.DataPageHeaderV2.V.NumValues)
		}
	}
	if values > chunk.NumValues {
		return fmt.Errorf("%w: a column of %d values has %d", errPages, chunk.NumValues, values)
	}
	return nil
}

// header reads the header at an offset, and returns its length.
func (p *pageChecker) header(at, end int64) (*format.PageHeader, int64, error) {
	counted := &countingReader{r: io.NewSectionReader(p.at, at, min(end-at, maxPageHeader))}
	if p.reader == nil {
		p.reader = bufio.NewReaderSize(counted, 512)
	}
	p.reader.Reset(counted)
	var compact thrift.CompactProtocol
	header := new(format.PageHeader)
	if err := thrift.NewDecoder(compact.NewReader(p.reader)).Decode(header); err != nil {
		return nil, 0, fmt.Errorf("%w: page at %d: %w", errPages, at, noEOF(err))
	}
	return header, counted.n - int64(p.reader.Buffered()), nil
}

// page checks what a header says of the page behind it.
func (p *pageChecker) page(chunk *format.ColumnMetaData, header *format.PageHeader, at, end int64) error {
	packed, unpacked := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	values := max(int64(header.DataPageHeader.V.NumValues), int64(header.DataPageHeaderV2.V.NumValues), int64(header.DictionaryPageHeader.V.NumValues))
	switch {
	case packed < 0 || unpacked < 0 || at+packed > end || unpacked > maxPage || unpacked > (packed+1)*maxExpansion:
		return fmt.Errorf("%w: a page of %d bytes at %d that become %d", errPages, packed, at, unpacked)
	case header.Type != format.DictionaryPage && values > chunk.NumValues || header.Type == format.DictionaryPage && values > unpacked*8:
		return fmt.Errorf("%w: a page of %d values at %d", errPages, values, at)
	case chunk.Codec == format.Lz4Raw:
		return p.lz4(header, at)
	}
	return nil
}

// lz4 unpacks a page: the library would try larger and larger memory for one
// that is broken.
func (p *pageChecker) lz4(header *format.PageHeader, at int64) error {
	packed, unpacked := int(header.CompressedPageSize), int(header.UncompressedPageSize)
	if v2 := header.DataPageHeaderV2; v2.Valid {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return nil
		}
		levels := int(v2.V.DefinitionLevelsByteLength) + int(v2.V.RepetitionLevelsByteLength)
		if v2.V.DefinitionLevelsByteLength < 0 || v2.V.RepetitionLevelsByteLength < 0 || levels > packed || levels > unpacked {
			return fmt.Errorf("%w: a page with levels of %d bytes at %d", errPages, levels, at)
		}
		at += int64(levels)
		packed -= levels
		unpacked -= levels
	}
	p.packed, p.unpacked = atLeast(p.packed, packed), atLeast(p.unpacked, unpacked)
	if _, err := p.at.ReadAt(p.packed, at); err != nil {
		return err
	}
	if packed == 0 {
		return nil
	}
	n, err := lz4.UncompressBlock(p.packed, p.unpacked)
	if err == nil && n != unpacked {
		err = fmt.Errorf("%d bytes instead of %d", n, unpacked)
	}
	if err != nil {
		return fmt.Errorf("%w: page at %d: LZ4: %w", errPages, at, err)
	}
	return nil
}

func atLeast(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// countingReader counts what is read through it.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
