package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompression reads the same rows whatever the file is called, and however
// it was compressed.
func TestCompression(t *testing.T) {
	rows := []string{"id,x\n1,a\n", "2,b\n3,\"c\nd\"\n"}
	plain := strings.Join(rows, "")
	skippable := "\x50\x2a\x4d\x18\x04\x00\x00\x00note"
	tests := []struct{ name, file, content string }{
		{"plain", "a.csv", plain},
		{"gzip", "a.csv.gz", gzipped(t, plain)},
		{"gzip, two members", "a.csv.gz", gzipped(t, rows...)},
		{"gzip, an empty member between", "a.csv.gz", gzipped(t, rows[0], "", rows[1])},
		{"gzip under a plain name", "a.csv", gzipped(t, plain)},
		{"plain under a gzip name", "a.csv.gz", plain},
		{"gzip in gzip", "a.csv.gz", gzipped(t, gzipped(t, plain))},
		{"zstd", "a.csv.zst", zstded(t, plain)},
		{"zstd, two frames", "a.csv.zst", zstded(t, rows...)},
		{"zstd behind a skippable frame", "a.csv.zst", skippable + zstded(t, plain)},
		{"zstd under a gzip name", "A.CSV.GZ", zstded(t, plain)},
		{"gzip with a byte order mark", "a.csv", gzipped(t, "\xef\xbb\xbf"+plain)},
	}
	want := []string{`1 {"id":"1","x":"a"}`, `2 {"id":"2","x":"b"}`, `3 {"id":"3","x":"c\nd"}`}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			items, err := read(t, write(t, map[string]string{test.file: test.content}), Options{}, test.file)
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, it := range items {
				rows = append(rows, it.ID+" "+it.Data)
			}
			if diff := cmp.Diff(want, rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCutFiles cuts compressed files at every byte: whatever is missing is an
// error, and never the end of the file.
func TestCutFiles(t *testing.T) {
	var rows strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rows, "{\"id\":\"%d\",\"x\":%d}\n", i, i*i*7919)
	}
	half := rows.Len() / 2
	for name, content := range map[string]string{
		"a.jsonl.gz":  gzipped(t, rows.String()[:half], rows.String()[half:]),
		"a.jsonl.zst": zstded(t, rows.String()[:half], rows.String()[half:]),
	} {
		for n := 1; n < len(content)-1; n += 1 + n%2 {
			seen, failed := 0, false
			for _, err := range rowsOf(t, name, []byte(content[:n]), Options{}).entries(t.Context(), Position{}, true) {
				if err != nil {
					failed = true
					break
				}
				seen++
			}
			// Between two members the file is whole, as far as anybody can tell.
			whole := n == len(gzipped(t, rows.String()[:half])) || n == len(zstded(t, rows.String()[:half]))
			if !failed && !whole {
				t.Fatalf("%s cut after %d of %d bytes: %d rows and no error", name, n, len(content), seen)
			}
		}
	}
}

func TestBadCompression(t *testing.T) {
	good := gzipped(t, "id\n1\n2\n3\n")
	flipped := []byte(good)
	flipped[len(flipped)-6] ^= 1 // of the checksum
	zst := []byte(zstded(t, strings.Repeat("id\n1\n", 100)))
	zst[len(zst)-1] ^= 1
	tests := []struct{ name, file, content, want string }{
		{"gzip cut by 6 bytes", "a.csv.gz", good[:len(good)-6], "a.csv.gz: the file is cut: its compressed data ends too early; copy it again"},
		{"gzip with a wrong checksum", "a.csv.gz", string(flipped), "invalid checksum"},
		{"gzip with something behind it", "a.csv.gz", good + strings.Repeat("garbage", 10), "invalid header"},
		{"only a gzip header", "a.csv.gz", good[:10], "the file is cut"},
		{"zstd with a wrong checksum", "a.csv.zst", string(zst), "checksum"},
		{"bzip2", "a.csv.bz2", "BZh91AY&SY", "is compressed with bzip2; convert it first: bzcat"},
		{"xz", "a.csv", "\xfd7zXZ\x00\x00", "is compressed with xz"},
		{"zip", "a.csv", "PK\x03\x04\x14", "is a ZIP archive (or an Excel workbook)"},
		{"Avro", "a.jsonl", "Obj\x01", "is an Avro file"},
		{"UTF-16 in gzip", "a.csv.gz", gzipped(t, "\xff\xfei\x00d\x00\n\x00"), "is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"},
		{"UTF-16 without a mark", "a.csv", "i\x00d\x00\n\x001\x00\n\x00", "is UTF-16"},
		{"CR alone in lines", "a.txt", "one\rtwo\rthree", "the lines end in CR alone"},
		{"CR alone in JSON", "a.jsonl", "{\"id\":1}\r{\"id\":2}\r", "the lines end in CR alone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(t, write(t, map[string]string{test.file: test.content}), Options{}, test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.file) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestFormats finds the format by the name, by the content, and by what the
// user says.
func TestFormats(t *testing.T) {
	pq := string(benchRows(t, 3)["rows.parquet"])
	const row, line = "application/json", "text/plain"
	tests := []struct {
		name, file, content string
		opts                Options
		want                []got
	}{
		{"tsv", "a.tsv", "id\tx\n1\ta,b\n2\t\"c\td\"\n", Options{}, []got{{"1", row, `{"id":"1","x":"a,b"}`, "a.tsv:2"}, {"2", row, `{"id":"2","x":"c\td"}`, "a.tsv:3"}}},
		{"semicolons", "a.csv", "id;x\n1;a,b\n", Options{Delimiter: ";"}, []got{{"1", row, `{"id":"1","x":"a,b"}`, "a.csv:2"}}},
		{"lines", "a.txt", "one\r\n\r\n  two \n", Options{}, []got{{"a.txt:1", line, "one", "a.txt:1"}, {"a.txt:2", line, "  two ", "a.txt:3"}}},
		{"lines by option", "a.log", "{}\n", Options{Format: FormatLines}, []got{{"a.log:1", line, "{}", "a.log:1"}}},
		{"JSON by content", "data", "\n {\"id\":1}\n", Options{}, []got{{"1", row, ` {"id":1}`, "data:2"}}},
		{"CSV by option", "data.dat", "id\n1\n", Options{Format: FormatCSV}, []got{{"1", row, `{"id":"1"}`, "data.dat:2"}}},
		{"Parquet by content", "data.csv", pq, Options{Columns: []string{"id"}}, []got{{"0", row, `{"id":0}`, "data.csv row 1"}, {"1", row, `{"id":1}`, "data.csv row 2"}, {"2", row, `{"id":2}`, "data.csv row 3"}}},
		{"Parquet in zstd", "data", zstded(t, pq), Options{Columns: []string{"id"}}, []got{{"0", row, `{"id":0}`, "data row 1"}, {"1", row, `{"id":1}`, "data row 2"}, {"2", row, `{"id":2}`, "data row 3"}}},
		{"a file as an item", "a.csv", "id\n1\n", Options{Format: FormatObjects}, []got{{"a.csv", "text/csv", "id\n1\n", "a.csv"}}},
		{"columns in another order", "a.csv", "a,id,b\n1,2,3\n", Options{Columns: []string{"b", "a"}}, []got{{"2", row, `{"b":"3","a":"1"}`, "a.csv:2"}}},
		{"fields that some rows lack", "a.jsonl", "{\"a\":1.0,\"id\":2,\"b\":{\"x\": 9007199254740993}}\n{\"id\":3}\n", Options{Columns: []string{"b", "a"}}, []got{
			{"2", row, `{"b":{"x": 9007199254740993},"a":1.0}`, "a.jsonl:1"}, {"3", row, `{}`, "a.jsonl:2"},
		}},
		{"Parquet without the ID in the payload", "a.parquet", pq, Options{Columns: []string{"x"}}, []got{
			{"0", row, `{"x":"` + strings.Repeat("y", 80) + `0"}`, "a.parquet row 1"}, {"1", row, `{"x":"` + strings.Repeat("y", 80) + `1"}`, "a.parquet row 2"}, {"2", row, `{"x":"` + strings.Repeat("y", 80) + `2"}`, "a.parquet row 3"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			items, err := read(t, write(t, map[string]string{test.file: test.content}), test.opts, test.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, items); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStandardInput(t *testing.T) {
	content := "{\"id\":1}\n{\"id\":2}\n"
	for name, in := range map[string]string{"plain": content, "gzip": gzipped(t, content), "zstd": zstded(t, content)} {
		t.Run(name, func(t *testing.T) {
			d := mustOpen(t, Options{Stdin: strings.NewReader(in)}, "-")
			if _, err := d.Check(t.Context(), func(Counts) {}); err != nil {
				t.Fatal(err)
			}
			items := collect(t, d.Items(t.Context()))
			if len(items) != 2 || items[1].ItemID != "2" || items[1].Position.String() != "-:2" {
				t.Errorf("items %v", text(items))
			}
			if diff := cmp.Diff(text(items[1:]), text(collect(t, d.ItemsAfter(t.Context(), items[0].Position)))); diff != "" {
				t.Errorf("after the first (-want +got):\n%s", diff)
			}
			again := mustOpen(t, Options{Stdin: strings.NewReader(in)}, "-").Sources()
			if changed := d.Sources()[0].Changed(again[0]); changed != "" {
				t.Errorf("changed: %s", changed)
			}
			other := mustOpen(t, Options{Stdin: strings.NewReader(in[:len(in)-1] + "x")}, "-").Sources()
			if changed := d.Sources()[0].Changed(other[0]); changed == "" {
				t.Error("another input counts as the same")
			}
		})
	}
	for _, test := range []struct {
		opts    Options
		sources []string
		want    string
	}{
		{Options{}, []string{"-"}, "standard input, which there is none of"},
		{Options{Stdin: strings.NewReader("")}, []string{"-", "-"}, "standard input, which there is none of"},
		{Options{Stdin: strings.NewReader(""), Format: FormatObjects}, []string{"-"}, "standard input holds rows"},
	} {
		if d, err := Open(t.Context(), test.sources, test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("opened %v, error %v, want %q", d, err, test.want)
		}
	}
	d := mustOpen(t, Options{Stdin: bytes.NewReader(benchRows(t, 5)["rows.parquet"])}, "-")
	if items := collect(t, d.Items(t.Context())); len(items) != 5 {
		t.Errorf("%d items, want 5", len(items))
	}
}

func TestGlobs(t *testing.T) {
	dir := write(t, map[string]string{
		"t/part-1.csv": "id\n1\n", "t/part-2.csv.gz": gzipped(t, "id\n2\n"), "t/deep/er/part-3.csv": "id\n3\n",
		"t/_SUCCESS": "", "t/_tmp/part-9.csv": "id\n9\n", "t/.part.csv.crc": "x", "t/photo.jpg": "j", "t/deep/b.jpg": "k", "t/[x].csv": "id\n8\n",
	})
	tests := []struct {
		name    string
		opts    Options
		sources []string
		want    []string
	}{
		{"rows", Options{}, []string{"t/part-*.csv"}, []string{"1 t/part-1.csv:2"}},
		{"compressed rows", Options{}, []string{"t/part-?.csv*"}, nil},
		{"compressed rows by format", Options{Format: FormatCSV}, []string{"t/part-?.csv*"}, []string{"1 t/part-1.csv:2", "2 t/part-2.csv.gz:2"}},
		{"at any depth", Options{}, []string{"t/**/part-*.csv"}, []string{"3 t/deep/er/part-3.csv:2", "1 t/part-1.csv:2"}},
		{"two patterns", Options{}, []string{"t/*-2.csv.gz", "t/*-1.csv"}, []string{"2 t/part-2.csv.gz:2", "1 t/part-1.csv:2"}},
		{"a directory of rows", Options{Format: FormatCSV, Include: []string{"part-*"}}, []string{"t"}, []string{"3 t/deep/er/part-3.csv:2", "1 t/part-1.csv:2", "2 t/part-2.csv.gz:2"}},
		{"files", Options{}, []string{"t/**/*.jpg"}, []string{"deep/b.jpg t/deep/b.jpg", "photo.jpg t/photo.jpg"}},
		{"include", Options{Include: []string{"*.jpg", "deep/**"}}, []string{"t"}, []string{"deep/b.jpg t/deep/b.jpg", "deep/er/part-3.csv t/deep/er/part-3.csv", "photo.jpg t/photo.jpg"}},
		{"exclude", Options{Include: []string{"*.jpg", "deep/**"}, Exclude: []string{"part*", "deep/b.*"}}, []string{"t"}, []string{"photo.jpg t/photo.jpg"}},
		{"a file that looks like a pattern", Options{}, []string{"t/[x].csv"}, []string{"8 t/[x].csv:2"}},
		{"row numbers", Options{ID: IDRow}, []string{"t/**/part-[13].csv"}, []string{"deep/er/part-3.csv:1 t/deep/er/part-3.csv:2", "part-1.csv:1 t/part-1.csv:2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want == nil {
				// A pattern that does not end like rows means files.
				test.want = []string{"part-1.csv t/part-1.csv", "part-2.csv.gz t/part-2.csv.gz"}
			}
			items, err := read(t, dir, test.opts, test.sources...)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, it := range items {
				found = append(found, it.ID+" "+filepath.ToSlash(it.At))
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
	for _, test := range []struct {
		source string
		opts   Options
		want   string
	}{
		{"t/*.parquet", Options{}, "no file matches"},
		{"t/*.png", Options{}, "dataset has no items"},
		{"nowhere/*.csv", Options{}, "no such file or directory"},
		{"t", Options{Include: []string{"[a"}}, `pattern "[a": syntax error in pattern`},
		{"t", Options{ID: IDField}, "--id field is for rows"},
		{"t", Options{ID: IDRow}, "--id row is for rows"},
		{"t", Options{Columns: []string{"a"}}, "--columns is for rows"},
		{"t/part-1.csv", Options{ID: IDPath}, "--id path is for files"},
		{"t/part-1.csv", Options{Format: FormatLines, ID: IDField}, "lines of text have no fields"},
		{"t/part-1.csv", Options{Format: FormatLines, Columns: []string{"id"}}, "lines of text have no columns"},
		{"t/part-1.csv", Options{Columns: []string{"no"}}, `part-1.csv:1: no column "no" in the header (id)`},
		{"t/part-1.csv", Options{Delimiter: "ab"}, `--delimiter: "ab"`},
	} {
		if _, err := read(t, dir, test.opts, test.source); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.source, err, test.want)
		}
	}
}

// A name of a column is no signature.
func TestHeadersLikeSignatures(t *testing.T) {
	for _, name := range []string{"PARENT", "ORC", "BZh", "PK", "Objects", "GIF89a", "PAR"} {
		items, err := read(t, write(t, map[string]string{"a.csv": name + ",id\nx,1\n"}), Options{}, "a.csv")
		if err != nil || len(items) != 1 {
			t.Errorf("%s: %v, error %v", name, items, err)
		}
	}
}

func TestDelimiterHint(t *testing.T) {
	_, err := read(t, write(t, map[string]string{"a.csv": "id;x\n1;2\n"}), Options{}, "a.csv")
	if err == nil || !strings.Contains(err.Error(), `its columns seem to be separated by ';': say --delimiter ';'`) {
		t.Errorf("error %v", err)
	}
}

func TestSameNameTwice(t *testing.T) {
	dir := write(t, map[string]string{"a/x.txt": "1\n", "b/x.txt": "1\n"})
	_, err := read(t, dir, Options{}, "a/x.txt", "b/x.txt")
	if err == nil || !strings.Contains(err.Error(), "are both called x.txt") {
		t.Errorf("error %v", err)
	}
	items, err := read(t, dir, Options{}, "*/x.txt")
	if err != nil || len(items) != 2 || items[0].ID != "a/x.txt:1" {
		t.Errorf("items %v, error %v", items, err)
	}
}

// TestShortAnswers: a server that sends less, or a file that grows, is no end of
// the file.
func TestShortAnswers(t *testing.T) {
	const content = "{\"id\":1}\n{\"id\":2}\n"
	for size, want := range map[int64]string{
		int64(len(content)):     "",
		int64(len(content)) + 5: "the file ended 5 bytes too early",
		9:                       "the file has grown while it was read",
	} {
		src := rowsOf(t, "a.jsonl", []byte(content), Options{})
		src.file.open = func(_ ctxType, offset int64) (readCloser, error) {
			return &exact{ReadCloser: io.NopCloser(strings.NewReader(content[offset:])), left: size - offset}, nil
		}
		var last error
		for _, err := range src.entries(t.Context(), Position{}, true) {
			last = err
		}
		if (last == nil) != (want == "") || last != nil && !strings.Contains(last.Error(), want) {
			t.Errorf("size %d: error %v, want %q", size, last, want)
		}
	}
}

// TestStopWhileReadingStandardInput: a terminal or pipe that says nothing does
// not keep a stop from working.
func TestStopWhileReadingStandardInput(t *testing.T) {
	silent, end := io.Pipe()
	defer func() { _ = end.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := Open(ctx, []string{"-"}, Options{Stdin: silent}); !errors.Is(err, stopped) {
		t.Errorf("error %v, want %v", err, stopped)
	}
}
