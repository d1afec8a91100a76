package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func check(tb testing.TB, d *Dataset) (Report, error) {
	tb.Helper()
	return d.Check(tb.Context(), func(Counts) {})
}

func TestIDs(t *testing.T) {
	dir := write(t, map[string]string{
		"a.jsonl": "{\"id\":7}\n", "b.jsonl": "{\"b\":1, \"a\":\"x\"}\n", "c.csv": "a,b\nx,1\n", "d.txt": "x\n", "o/p/q": "x",
	})
	for _, test := range []struct {
		opts   Options
		source string
		want   string
	}{
		{Options{ID: IDRow}, "b.jsonl", "b.jsonl:1"},
		{Options{ID: IDRow}, "c.csv", "c.csv:1"},
		{Options{}, "d.txt", "d.txt:1"},
		{Options{}, "o", "p/q"},
		{Options{ID: IDPath}, "o", "p/q"},
		{Options{ID: IDHash}, "o", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
		{Options{ID: IDHash}, "d.txt", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
		{Options{ID: IDField, IDField: "a"}, "c.csv", "x"},
	} {
		items, err := read(t, dir, test.opts, test.source)
		if err != nil || len(items) != 1 || items[0].ID != test.want {
			t.Errorf("%s of %s: %v, error %v, want %s", test.opts.ID, test.source, items, err, test.want)
		}
	}
}

// TestCanonical gives the same hash to rows that say the same.
func TestCanonical(t *testing.T) {
	same := [][]string{
		{`{"a":1,"b":[true,null,{"y":"ä","x":"\/"}]}`, ` { "b" : [ true , null , {"x":"/","y":"\u00e4"} ] , "a" : 1 } `, `{"b":[true,null,{"x":"/","y":"\u00E4"}],"\u0061":1}`},
		{`{"n":9007199254740993}`},
		{`{"n":9007199254740992}`},
		{`{"n":1.0}`},
		{`{"n":1}`},
		{`{"n":"1"}`},
		{`{"a":"\ud800"}`},
		{`{"a":"\ufffd"}`, "{\"a\":\"\ufffd\"}"},
		{`{"a":1,"a":2}`},
		{`{"a":2,"a":1}`},
		{`{"a":[1,2]}`},
		{`{"a":[2,1]}`},
		{`{"a":[]}`},
		{`{"a":{}}`},
		{`{}`, ` { } `},
		{`{"a":[[],[]]}`},
		{`{"a":[[[]]]}`},
		{`{"a":"b\"c\\"}`, `{"a":"b\u0022c\u005c"}`},
	}
	seen := map[string]string{}
	for _, rows := range same {
		want := hashRow([]byte(rows[0]), FormatJSONL)
		for _, row := range rows {
			if got := hashRow([]byte(row), FormatJSONL); got != want {
				t.Errorf("%s has another hash than %s", row, rows[0])
			}
		}
		if other, twice := seen[want]; twice {
			t.Errorf("%s has the hash of %s", rows[0], other)
		}
		seen[want] = rows[0]
	}
	// CSV and JSON Lines of the same texts are the same rows.
	dir := write(t, map[string]string{"a.csv": "b,a\n\"x\n\"\"\",é\n", "a.jsonl": `{"a":"\u00e9","b":"x\n\""}`})
	var ids []string
	for _, file := range []string{"a.csv", "a.jsonl"} {
		items, err := read(t, dir, Options{ID: IDHash}, file)
		if err != nil || len(items) != 1 {
			t.Fatal(items, err)
		}
		ids = append(ids, items[0].ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("hashes %q", ids)
	}
}

func TestDuplicatesAreRefused(t *testing.T) {
	dir := write(t, map[string]string{
		"a.jsonl": "{\"id\":\"x\"}\n{\"id\":\"y\"}\n{\"id\":\"x\"}\n", "b.csv": "id\nz\ny\n", "o/y": "", "p/y": "",
	})
	for _, test := range []struct {
		sources []string
		want    string
	}{
		{[]string{"a.jsonl"}, `duplicate item_id "x": at DIR/a.jsonl:1 and at DIR/a.jsonl:3 (1 in all)`},
		{[]string{"b.csv", "a.jsonl"}, `duplicate item_id "y": at DIR/b.csv:3 and at DIR/a.jsonl:2 (2 in all)`},
		{[]string{"o", "b.csv", "p"}, `duplicate item_id "y": at DIR/o/y and at DIR/b.csv:3 (2 in all)`},
	} {
		var sources []string
		for _, s := range test.sources {
			sources = append(sources, filepath.Join(dir, s))
		}
		_, err := check(t, mustOpen(t, Options{}, sources...))
		if !errors.Is(err, ErrDuplicate) || !strings.Contains(err.Error(), strings.ReplaceAll(test.want, "DIR", dir)) {
			t.Errorf("%v: error %v, want %s", test.sources, err, test.want)
		}
	}
}

// TestRejects leaves out bad rows and duplicates, and writes down each.
func TestRejects(t *testing.T) {
	dir := write(t, map[string]string{
		"a.csv":   "id,x\n1,a\n2\n1,b\n3,\xff\n4,d\n\"5\"x,e\n6,\"f\ng\"\n",
		"b.jsonl": "{\"id\":6}\n{\"id\":7,\"x\":}\n{\"id\":8}\n{\"id\":8}\n{\"id\":\"\"}\n",
		"o/8":     "x",
	})
	opts := Options{MaxBadRows: 5, OnDuplicate: SkipDuplicates, Rejects: filepath.Join(dir, "rejects.jsonl")}
	sources := []string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.jsonl"), filepath.Join(dir, "o")}
	d := mustOpen(t, opts, sources...)
	report, err := check(t, d)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counts{Read: 13, Items: 4 + 0, Rejected: 5, Skipped: 4}); report.Read != want.Read || report.Items != want.Items || report.Rejected != want.Rejected || report.Skipped != want.Skipped {
		t.Errorf("counts %+v, want %+v", report.Counts, want)
	}
	var ids []string
	for _, e := range collect(t, d.Items(t.Context())) {
		if e.Problem == nil {
			ids = append(ids, e.ItemID)
		}
	}
	if diff := cmp.Diff([]string{"1", "4", "6", "8"}, ids); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(opts.Rejects)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		var r reject
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.ReplaceAll(fmt.Sprintf("%s:%d row %d: %s [%s%s]", r.File, r.Line, r.Row, r.Error, r.Raw, r.RawBase64), dir+"/", ""))
	}
	want := []string{
		"a.csv:3 row 2: the row has 1 columns, the header has 2 [2]",
		"a.csv:5 row 4: column 2 (x): \"\\xff\" is not valid UTF-8 [3,\xff]",
		"a.csv:7 row 6: column 1: the row is not CSV: text after the quote that closes a field; a quote inside quotes is written twice [\"5\"x,e]",
		"b.jsonl:2 row 2: the row is not JSON at byte 13: invalid character '}' looking for beginning of value; it begins with \"{\\\"id\\\":7,\\\"x\\\":}\" [{\"id\":7,\"x\":}]",
		"b.jsonl:5 row 5: item_id is empty [{\"id\":\"\"}]",
		"a.csv:4 row 3: duplicate item_id \"1\", which a.csv row 1 has [{\"id\":\"1\",\"x\":\"b\"}]",
		"b.jsonl:1 row 1: duplicate item_id \"6\", which a.csv row 7 has [{\"id\":6}]",
		"b.jsonl:4 row 4: duplicate item_id \"8\", which b.jsonl row 3 has [{\"id\":8}]",
		"o/8:0 row 0: duplicate item_id \"8\", which b.jsonl row 3 has []",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("rejects (-want +got):\n%s", diff)
	}

	// One row less may be bad.
	opts.MaxBadRows, opts.Rejects = 4, filepath.Join(dir, "none.jsonl")
	_, err = check(t, mustOpen(t, opts, sources...))
	if err == nil || !strings.Contains(err.Error(), "more than 4 bad rows (--max-bad-rows), the last: "+dir+"/b.jsonl:5: item_id is empty") {
		t.Errorf("error %v", err)
	}
	if left, err := filepath.Glob(opts.Rejects + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoRejectsNoFile(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": `{"id":1}`})
	opts := Options{MaxBadRows: 1, Rejects: filepath.Join(dir, "rejects.jsonl")}
	if _, err := check(t, mustOpen(t, opts, filepath.Join(dir, "a.jsonl"))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(opts.Rejects); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat: %v", err)
	}
}

// TestIDSet finds exactly the duplicates among many IDs, with most of them in
// the file.
func TestIDSet(t *testing.T) {
	temp := &tempFiles{}
	t.Cleanup(temp.close)
	random := rand.New(rand.NewPCG(1, 2))
	ids := newIDSet(temp)
	first := map[int]int64{}
	var want []duplicate
	for number := int64(1); number <= 500_000; number++ {
		id := random.IntN(20_000_000)
		if err := ids.add(fmt.Sprint(id), number); err != nil {
			t.Fatal(err)
		}
		if at, twice := first[id]; twice {
			want = append(want, duplicate{number, at})
		} else {
			first[id] = number
		}
	}
	if ids.blocks < 500 {
		t.Errorf("%d blocks in the file", ids.blocks)
	}
	found, err := ids.duplicates()
	if err != nil || len(want) < 1000 {
		t.Fatal(len(want), err)
	}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(duplicate{})); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
	if len(temp.open) > 0 {
		t.Errorf("%d files left", len(temp.open))
	}
}

// TestNearTheLimit holds payloads near 10,000,000 bytes against the size of the
// message: it is what Pub/Sub limits, with its attributes and framing.
func TestNearTheLimit(t *testing.T) {
	for _, size := range []int{9_999_000, 9_999_990, 10_000_000} {
		row := `{"id":"a","x":"`
		dir := write(t, map[string]string{
			"a.jsonl": "{\"id\":\"first\"}\n" + row + strings.Repeat("x", size-len(row)-2) + "\"}\n{\"id\":\"last\"}\n",
			"o/big":   strings.Repeat("y", size), "o/small": "z",
		})
		for source, neighbours := range map[string]int64{"a.jsonl": 2, "o": 1} {
			report, err := check(t, mustOpen(t, Options{MaxBadRows: 1}, filepath.Join(dir, source)))
			if err != nil {
				t.Fatal(err)
			}
			want := neighbours
			if size <= 9_999_000 {
				want++
			}
			if report.Items != want || report.Rejected != neighbours+1-want {
				t.Errorf("%s of %d bytes: %+v, want %d items", source, size, report.Counts, want)
			}
			if size <= 9_999_000 {
				continue
			}
			_, err = check(t, mustOpen(t, Options{}, filepath.Join(dir, source)))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the item has %d bytes; a message carries at most 9999", size)) {
				t.Errorf("%s of %d bytes: error %v", source, size, err)
			}
		}
	}
}
