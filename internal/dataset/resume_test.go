package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func gzipped(tb testing.TB, parts ...string) string {
	tb.Helper()
	var out bytes.Buffer
	for _, part := range parts { // a member each
		z := gzip.NewWriter(&out)
		if _, err := z.Write([]byte(part)); err != nil {
			tb.Fatal(err)
		}
		if err := z.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	return out.String()
}

func zstded(tb testing.TB, parts ...string) string {
	tb.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	var out []byte
	for _, part := range parts {
		out = z.EncodeAll([]byte(part), out)
	}
	return string(out)
}

// mustOpen opens a dataset that the test closes.
func mustOpen(tb testing.TB, opts Options, sources ...string) *Dataset {
	tb.Helper()
	d, err := Open(tb.Context(), sources, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

func collect(tb testing.TB, entries Entries) []Entry {
	tb.Helper()
	var all []Entry
	for e, err := range entries {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// text is what a test compares of entries.
func text(entries []Entry) []string {
	all := []string{}
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%s %s %q %v %v", e.ItemID, e.Position, e.Data, e.Position.Counts, e.Problem))
	}
	return all
}

// TestGoOnFromEveryPosition goes on after each entry of a dataset with every
// kind of source, with bad rows and duplicates, and sees what comes after it
// in an undisturbed reading.
func TestGoOnFromEveryPosition(t *testing.T) {
	jsonl := "\xef\xbb\xbf{\"id\":\"j1\"}\n\n{\"id\":\"j2\"}\r\n{\"id\":\nnope\n{\"id\":\"j1\"}\n{\"id\":\"j3\"}"
	csv := "\xef\xbb\xbfx,id\r\n1,A1\r\n\r\n\"2\r\n,\"\"2\",A2\r\n3\r\n4,A2\r\n5,A5\n\"6\n\",A6\n7,A7"
	replace := func(s, prefix string) string {
		return strings.NewReplacer("A", prefix, "j", prefix).Replace(s)
	}
	pq := benchRows(t, 700)["rows.parquet"]
	dir := write(t, map[string]string{
		"a.jsonl": jsonl, "b.jsonl.gz": gzipped(t, replace(jsonl[:30], "g"), replace(jsonl[30:], "g")),
		"c.csv": csv, "d.csv.zst": zstded(t, replace(csv, "Z")), "lines.txt": "one\ntwo\n\n\xff\nthree\n",
		"e.parquet": string(pq), "f.parquet.gz": gzipped(t, string(pq)),
		"objects/1": "x", "objects/a/2": "y", "objects/a.b/3": "z",
	})
	var sources []string
	for _, name := range []string{"a.jsonl", "b.jsonl.gz", "objects", "c.csv", "d.csv.zst", "lines.txt", "e.parquet", "f.parquet.gz", "a.jsonl"} {
		sources = append(sources, filepath.Join(dir, name))
	}
	opts := Options{MaxBadRows: -1, OnDuplicate: SkipDuplicates}
	d := mustOpen(t, opts, sources...)
	report, err := d.Check(t.Context(), func(Counts) {})
	if err != nil {
		t.Fatal(err)
	}
	whole := collect(t, d.Items(t.Context()))
	want := text(whole)
	if report.Read != int64(len(whole)) {
		t.Errorf("check read %d rows, want %d", report.Read, len(whole))
	}
	last := whole[len(whole)-1].Position.Counts
	last.Bytes, report.Bytes = 0, 0
	if report.Counts != last || last.Read != last.Items+last.Rejected+last.Skipped || last.Rejected != 9 || last.Skipped != 709 {
		t.Errorf("check counted %+v, reading %+v", report.Counts, last)
	}
	for i, e := range whole {
		if i > 60 && i%97 != 0 && i < len(whole)-10 { // the rows of the Parquet files
			continue
		}
		kept, err := json.Marshal(e.Position)
		if err != nil {
			t.Fatal(err)
		}
		var at Position
		if err := json.Unmarshal(kept, &at); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i+1:], text(collect(t, d.ItemsAfter(t.Context(), at)))); diff != "" {
			t.Fatalf("after %s (%s) (-want +got):\n%s", e.Position, kept, diff)
		}
	}
}

// A plain file is not read again up to the position.
func TestGoOnSeeks(t *testing.T) {
	var content strings.Builder
	content.WriteString("id\n")
	for i := range 300_000 {
		fmt.Fprintf(&content, "%07d\n", i)
	}
	src := rowsOf(t, "a.csv", []byte(content.String()), Options{})
	var read int64
	open := src.file.open
	var offsets []int64
	src.file.open = func(ctx ctxType, offset int64) (readCloser, error) {
		offsets = append(offsets, offset)
		r, err := open(ctx, offset)
		return countingCloser{r, &read}, err
	}
	at := Position{Row: 299_990, Offset: 3 + 299_990*8, NextLine: 299_992}
	var ids []string
	for e, err := range src.entries(t.Context(), at, true) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprint(e.ItemID, " ", e.Position.Row, " ", e.Position.Line))
	}
	if len(ids) != 10 || ids[0] != "0299990 299991 299992" || ids[9] != "0299999 300000 300001" {
		t.Errorf("went on with %q", ids)
	}
	if read > 2*readBuffer {
		t.Errorf("read %d bytes, at %v", read, offsets)
	}
}

func TestSourcesThatChanged(t *testing.T) {
	big := strings.Repeat("{\"id\":1}\n", 50_000)
	for _, test := range []struct {
		name   string
		change func(t *testing.T, file string)
		want   string
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"longer", func(t *testing.T, file string) { overwrite(t, file, big+"\n") }, "had 450000 bytes and has 450001 now"},
		{"other head", func(t *testing.T, file string) { overwrite(t, file, "\n"+big[1:]) }, "has other content than before, of the same size"},
		{"other tail", func(t *testing.T, file string) { overwrite(t, file, big[1:]+"\n") }, "has other content than before, of the same size"},
		{"other middle", func(t *testing.T, file string) {
			changed := []byte(big)
			changed[225_000] = ' '
			overwrite(t, file, string(changed))
			if err := os.Chtimes(file, later, later); err != nil {
				t.Fatal(err)
			}
		}, "was changed at 2040-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(write(t, map[string]string{"a.jsonl": big}), "a.jsonl")
			before := mustOpen(t, Options{}, file).Sources()
			test.change(t, file)
			after := mustOpen(t, Options{}, file).Sources()
			if got := before[0].Changed(after[0]); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("changed: %q, want %q", got, test.want)
			}
		})
	}
}

func TestSetsThatChanged(t *testing.T) {
	dir := write(t, map[string]string{"in/a": "1", "in/b": "22"})
	look := func() Source {
		d := mustOpen(t, Options{}, filepath.Join(dir, "in"))
		report, err := d.Check(t.Context(), func(Counts) {})
		if err != nil {
			t.Fatal(err)
		}
		return report.Sources[0]
	}
	first := look()
	if first.Files != 2 || first.Size != 3 || first.Hash == "" {
		t.Errorf("identity %+v", first)
	}
	if got := first.Changed(look()); got != "" {
		t.Errorf("changed: %q", got)
	}
	overwrite(t, filepath.Join(dir, "in/b"), "23")
	if err := os.Chtimes(filepath.Join(dir, "in/b"), later, later); err != nil {
		t.Fatal(err)
	}
	if got := first.Changed(look()); !strings.Contains(got, "has other content") {
		t.Errorf("changed: %q", got)
	}
	overwrite(t, filepath.Join(dir, "in/c"), "")
	if got := first.Changed(look()); !strings.Contains(got, "had 2 files and has 3 now") {
		t.Errorf("changed: %q", got)
	}
}

func TestFileThatChangesBetweenTwoReadings(t *testing.T) {
	file := filepath.Join(write(t, map[string]string{"a.jsonl": "{\"id\":1}\n{\"id\":2}\n"}), "a.jsonl")
	d := mustOpen(t, Options{}, file)
	if _, err := d.Check(t.Context(), func(Counts) {}); err != nil {
		t.Fatal(err)
	}
	overwrite(t, file, "{\"id\":1}\n")
	for _, err := range d.Items(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "a.jsonl: the file was changed since it was looked at first") {
			t.Errorf("error %v", err)
		}
	}
}
