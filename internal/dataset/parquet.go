package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// parquetReader reads the rows of a Parquet file, a page of each column at a
// time. It puts the rows together itself: what a value is stands in the file's
// schema, and no Go type between could hold all of it.
type parquetReader struct {
	file   *parquet.File
	groups []parquet.RowGroup
	// payload are the columns of the payload in its order, id that of the ID or
	// nil; leaves are the stored columns under all of them.
	payload []*node
	id      *node
	leaves  []*leaf
	// group is the index of the current row group, left its rows to come.
	group int
	left  int64
	// passed means that the current row group was passed over unread.
	passed bool
	// release gives back the temporary file, if there is one.
	release func()
	pages   pageChecker
}

// openParquet opens the file where it is, or a copy, when it is not a plain
// file of this machine: Parquet is read from all over the file.
func openParquet(ctx context.Context, in *input, temp *tempFiles, w want) (_ rowReader, err error) {
	t := &parquetReader{group: -1, release: func() {}}
	at, size, err := t.readerAt(ctx, in, temp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("the file is not right Parquet: %v", crash)
		}
		if err != nil {
			t.release()
		}
	}()
	if err := checkFooter(at, size); err != nil {
		return nil, err
	}
	t.pages = pageChecker{at: at, size: size}
	if t.file, err = parquet.OpenFile(at, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10)); err != nil {
		return nil, fmt.Errorf("the file is not right Parquet, or cut: %w", err)
	}
	t.groups = t.file.RowGroups()
	if err := t.choose(w); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *parquetReader) readerAt(ctx context.Context, in *input, temp *tempFiles) (io.ReaderAt, int64, error) {
	if in.plain && in.file.uri == "" && in.file.name != "-" {
		f, err := os.Open(in.file.name)
		if err != nil {
			return nil, 0, withoutPath(err)
		}
		t.release = func() { _ = f.Close() } // it was only read
		return f, in.file.size, nil
	}
	f, size, err := temp.copy(readerOf(ctx, in))
	if err != nil {
		return nil, 0, cut(err)
	}
	t.release = func() { temp.release(f) }
	return f, size, nil
}

// readerOf stops reading when ctx ends.
func readerOf(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx.Err, r} }

type contextReader struct {
	err func() error
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// choose finds the columns that are wanted.
func (t *parquetReader) choose(w want) error {
	root, err := schemaTree(t.file.Metadata().Schema)
	if err != nil {
		return err
	}
	byName := map[string]*node{}
	var names []string
	for _, column := range root.children {
		if byName[column.name] != nil {
			return fmt.Errorf("column %q occurs twice; rename one", column.name)
		}
		byName[column.name] = column
		names = append(names, column.name)
	}
	find := func(name, cure string) (*node, error) {
		if column := byName[name]; column != nil {
			return column, nil
		}
		return nil, fmt.Errorf("no column %q in the file (%s); %s", name, preview([]byte(strings.Join(names, ", "))), cure)
	}
	t.payload = root.children
	if len(w.columns) > 0 {
		t.payload = nil
		for _, name := range w.columns {
			column, err := find(name, "name columns that it has with --columns")
			if err != nil {
				return err
			}
			t.payload = append(t.payload, column)
		}
	}
	if w.idField != "" {
		if t.id, err = find(w.idField, "name the column with the ID with --id-field"); err != nil {
			return err
		}
	}
	wanted := map[*node]bool{}
	for _, column := range t.payload {
		wanted[column] = true
	}
	if t.id != nil && !wanted[t.id] {
		wanted[t.id] = true
	}
	for _, column := range root.children {
		if wanted[column] {
			t.leaves = append(t.leaves, column.leaves...)
		}
	}
	return nil
}

func (t *parquetReader) close() {
	for _, l := range t.leaves {
		l.close()
	}
	t.release()
}

// skip passes over whole row groups, and over pages where that is possible.
func (t *parquetReader) skip(_ context.Context, after Position) (err error) {
	defer recovered(&err)
	rows := after.Row
	for {
		if err := t.nextGroup(); err != nil {
			return err
		}
		if rows < t.left {
			break
		}
		rows -= t.left
		t.left, t.passed = 0, true
		if rows == 0 {
			return nil
		}
	}
	t.left -= rows
	for _, l := range t.leaves {
		if err := l.pages.SeekToRow(rows); err != nil {
			return err
		}
	}
	return nil
}

// nextGroup opens the row group after the current one, or returns io.EOF.
func (t *parquetReader) nextGroup() error {
	if t.group++; t.group >= len(t.groups) {
		return io.EOF
	}
	group := t.groups[t.group]
	t.left, t.passed = group.NumRows(), false
	chunks := group.ColumnChunks()
	columns := t.file.Metadata().RowGroups[t.group].Columns
	for _, l := range t.leaves {
		if l.index >= len(chunks) || l.index >= len(columns) {
			return fmt.Errorf("row group %d has %d columns, the schema more", t.group, len(chunks))
		}
		if err := t.pages.check(&columns[l.index].MetaData); err != nil {
			return fmt.Errorf("row group %d, column %s: %w", t.group, l.path, err)
		}
		l.close()
		l.pages = chunks[l.index].Pages()
	}
	return nil
}

func (t *parquetReader) next() (r row, err error) {
	defer recovered(&err)
	for t.left == 0 {
		if t.group >= 0 && t.group < len(t.groups) && !t.passed {
			if err := t.ended(); err != nil {
				return row{}, err
			}
		}
		if err := t.nextGroup(); err != nil {
			return row{}, err
		}
	}
	t.left--
	return t.assemble()
}

// ended checks that no column holds more than the row group's rows.
func (t *parquetReader) ended() error {
	for _, l := range t.leaves {
		if _, err := l.peek(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("row group %d, column %s: there are more values than rows", t.group, l.path)
		}
	}
	return nil
}

// assemble reads one row. A value that JSON cannot hold makes it a bad row.
func (t *parquetReader) assemble() (row, error) {
	data := []byte{'{'}
	var id []byte
	var bad error
	for i, column := range t.payload {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(appendJSON(data, column.name), ':')
		from := len(data)
		var err error
		if data, err = column.append(data, &bad); err != nil {
			return row{}, fmt.Errorf("row group %d, column %s: %w", t.group, column.name, noEOF(err))
		}
		data = bounded(data, &bad)
		if column == t.id && bad == nil {
			id = data[from:]
		}
	}
	if t.id != nil && id == nil {
		var err error
		if id, err = t.id.append(nil, &bad); err != nil {
			return row{}, fmt.Errorf("row group %d, column %s: %w", t.group, t.id.name, noEOF(err))
		}
	}
	r := row{data: append(data, '}'), bad: bad}
	if bad == nil && t.id != nil {
		r.id, r.bad = idText(id, t.id.name)
	}
	if r.bad != nil {
		r.data, r.raw = nil, r.data
	}
	return r, nil
}

// noEOF keeps a column that ends too early from looking like the end of the
// file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the column ends before the row group does")
	}
	return err
}

// recovered turns a panic of the library into an error: it checks less than
// what a broken file can hold.
func recovered(err *error) {
	if crash := recover(); crash != nil {
		*err = fmt.Errorf("the file is not right Parquet: %v", crash)
	}
}
