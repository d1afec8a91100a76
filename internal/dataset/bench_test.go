package dataset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// memory is a file of rows in memory. Its name keeps Parquet from being read
// where it is.
func memory(name string, content []byte) file {
	return file{name: name, id: name, uri: "memory", size: int64(len(content)), open: func(_ context.Context, offset int64) (io.ReadCloser, error) {
		if offset > int64(len(content)) {
			return nil, fmt.Errorf("offset %d of %d", offset, len(content))
		}
		return &exact{ReadCloser: io.NopCloser(bytes.NewReader(content[offset:])), left: int64(len(content)) - offset}, nil
	}}
}

// rowsOf is a source of rows in memory.
func rowsOf(tb testing.TB, name string, content []byte, opts Options) rowSource {
	tb.Helper()
	if err := opts.Validate(); err != nil {
		tb.Fatal(err)
	}
	temp := &tempFiles{}
	tb.Cleanup(temp.close)
	return rowSource{file: memory(name, content), opts: opts, temp: temp}
}

// benchRows are rows of about 100 bytes in each format.
func benchRows(tb testing.TB, n int) map[string][]byte {
	tb.Helper()
	var jsonl, csv, quoted, lines strings.Builder
	csv.WriteString("id,x\n")
	quoted.WriteString("id,x\n")
	type row struct {
		ID int64  `parquet:"id"`
		X  string `parquet:"x"`
	}
	var table []row
	for i := range n {
		text := strings.Repeat("y", 80)
		fmt.Fprintf(&jsonl, "{\"id\":%d,\"x\":\"%s\"}\n", i, text)
		fmt.Fprintf(&csv, "%d,%sabcdefghij\n", i, text)
		fmt.Fprintf(&quoted, "%d,\"%s \"\"q\"\"\n\"\n", i, text)
		fmt.Fprintf(&lines, "%d %s\n", i, text)
		table = append(table, row{int64(i), text + fmt.Sprint(i)})
	}
	var pq bytes.Buffer
	if err := parquet.Write(&pq, table); err != nil {
		tb.Fatal(err)
	}
	return map[string][]byte{
		"rows.jsonl": []byte(jsonl.String()), "rows.csv": []byte(csv.String()), "quoted.csv": []byte(quoted.String()),
		"rows.txt": []byte(lines.String()), "rows.parquet": pq.Bytes(),
	}
}

// The readers must be faster than publishing is: rows of 100 bytes.
func BenchmarkReaders(b *testing.B) {
	files := benchRows(b, 10_000)
	for _, name := range []string{"rows.jsonl", "rows.csv", "quoted.csv", "rows.txt", "rows.parquet"} {
		for _, id := range []string{IDAuto, IDHash} {
			b.Run(name+"/id="+id, func(b *testing.B) {
				src := rowsOf(b, name, files[name], Options{ID: id})
				b.ReportAllocs()
				rows := 0
				for b.Loop() {
					for _, err := range src.entries(b.Context(), Position{}, true) {
						if err != nil {
							b.Fatal(err)
						}
						rows++
					}
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkIDSet(b *testing.B) {
	temp := &tempFiles{}
	defer temp.close()
	ids := newIDSet(temp)
	var n int64
	for b.Loop() {
		n++
		if err := ids.add(fmt.Sprint(n), n); err != nil {
			b.Fatal(err)
		}
	}
	if found, err := ids.duplicates(); err != nil || len(found) > 0 {
		b.Fatal(found, err)
	}
}
