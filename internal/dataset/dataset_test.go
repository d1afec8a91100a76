package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes files below a new directory and returns it. A name that ends in
// a slash is a directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// got is what a test sees of an entry.
type got struct{ ID, Type, Data, At string }

// read collects the items of sources, their positions below dir, and the error
// at the end.
func read(t *testing.T, dir string, opts Options, sources ...string) ([]got, error) {
	t.Helper()
	for i, s := range sources {
		sources[i] = filepath.Join(dir, s)
	}
	d, err := Open(t.Context(), sources, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []got
	for e, err := range d.Items(t.Context()) {
		if err != nil {
			return all, err
		}
		at := strings.TrimPrefix(e.Position.String(), dir+string(filepath.Separator))
		all = append(all, got{e.ItemID, e.ContentType, string(e.Data), at})
	}
	return all, nil
}

func TestRows(t *testing.T) {
	const row = "application/json"
	tests := []struct {
		name, file, content string
		opts                Options
		want                []got
	}{
		{
			name: "json lines", file: "a.jsonl", content: "{\"id\":\"a\",\"x\":1}\n{\"x\": [2], \"id\":\"b\"}\n",
			want: []got{{"a", row, `{"id":"a","x":1}`, "a.jsonl:1"}, {"b", row, `{"x": [2], "id":"b"}`, "a.jsonl:2"}},
		},
		{
			name: "no newline at the end, CRLF, blank lines", file: "a.ndjson", content: "{\"id\":\"a\"}\r\n\r\n \t\n{\"id\":\"b\"}",
			want: []got{{"a", row, `{"id":"a"}`, "a.ndjson:1"}, {"b", row, `{"id":"b"}`, "a.ndjson:4"}},
		},
		{
			name: "byte order mark", file: "a.json", content: "\xef\xbb\xbf{\"id\":\"a\"}\n",
			want: []got{{"a", row, `{"id":"a"}`, "a.json:1"}},
		},
		{
			name: "numbers keep their text", file: "a.jsonl", content: "{\"id\":9007199254740993}\n{\"id\":-1.50e3}\n{\"id\":0}\n",
			want: []got{
				{"9007199254740993", row, `{"id":9007199254740993}`, "a.jsonl:1"},
				{"-1.50e3", row, `{"id":-1.50e3}`, "a.jsonl:2"},
				{"0", row, `{"id":0}`, "a.jsonl:3"},
			},
		},
		{
			name: "the key matches exactly", file: "a.jsonl", content: `{"ID":2,"Id":3,"a":{"id":4},"b":["id",{"id":5}],"id":1,"c":"\"id\":6"}`,
			want: []got{{"1", row, `{"ID":2,"Id":3,"a":{"id":4},"b":["id",{"id":5}],"id":1,"c":"\"id\":6"}`, "a.jsonl:1"}},
		},
		{
			name: "escaped key and value", file: "a.jsonl", content: `{ "\u0069d" : "\u00e4\/b" }`,
			want: []got{{"ä/b", row, `{ "\u0069d" : "\u00e4\/b" }`, "a.jsonl:1"}},
		},
		{
			name: "another field", file: "a.jsonl", content: `{"id":"a","key":"k"}`, opts: Options{IDField: "key"},
			want: []got{{"k", row, `{"id":"a","key":"k"}`, "a.jsonl:1"}},
		},
		{
			name: "csv", file: "a.csv", content: "text,id\n\"a,\"\"b\"\"\",007\n<é&>,8\n",
			want: []got{{"007", row, `{"text":"a,\"b\"","id":"007"}`, "a.csv:2"}, {"8", row, `{"text":"<é&>","id":"8"}`, "a.csv:3"}},
		},
		{
			name: "csv from Excel", file: "a.csv", content: "\xef\xbb\xbf\"id\",\"text\"\r\n1,\"a\r\nb\"\r\n\r\n2,\"c\td\"\r\n",
			want: []got{{"1", row, `{"id":"1","text":"a\r\nb"}`, "a.csv:2"}, {"2", row, `{"id":"2","text":"c\td"}`, "a.csv:5"}},
		},
		{
			name: "csv with an index column", file: "a.csv", content: ",id\n0,a\n",
			want: []got{{"a", row, `{"":"0","id":"a"}`, "a.csv:2"}},
		},
		{
			name: "csv, another column", file: "A.CSV", content: "ID,n\nx,1\n", opts: Options{IDField: "ID"},
			want: []got{{"x", row, `{"ID":"x","n":"1"}`, "A.CSV:2"}},
		},
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

func TestBadRows(t *testing.T) {
	tests := []struct {
		name, file, content string
		good                int
		want                string
	}{
		{"not JSON", "a.jsonl", "{\"id\":1}\n{\"id\":2\n{\"id\":3}\n", 1, "a.jsonl:2: the row is not JSON"},
		{"an array", "a.json", "[{\"id\":1}]\n", 0, "a.json:1: the row is not a JSON object"},
		{"an array over lines", "a.json", "[\n{\"id\":1}\n]\n", 0, "a.json:1: the row is not JSON"},
		{"no id", "a.jsonl", `{"ID":1}`, 0, `a.jsonl:1: the row has no field "id"; name the field with the ID with --id-field`},
		{"id twice", "a.jsonl", `{"id":1,"id":1}`, 0, `a.jsonl:1: field "id" occurs twice`},
		{"id twice, once escaped", "a.jsonl", `{"id":1,"\u0069d":2}`, 0, "occurs twice"},
		{"null id", "a.jsonl", `{"id":null}`, 0, `field "id" is null`},
		{"id is true", "a.jsonl", `{"id":true}`, 0, `field "id" is true; an ID must be a text or a number`},
		{"id is an object", "a.jsonl", `{"id":{"a":1}}`, 0, `an ID must be a text or a number`},
		{"empty id", "a.jsonl", `{"id":""}`, 0, "a.jsonl:1: item_id is empty"},
		{"long id", "a.jsonl", `{"id":"` + strings.Repeat("x", 257) + `"}`, 0, "at most 256"},
		{"half a surrogate pair", "a.jsonl", `{"id":"\ud800"}`, 0, "not valid Unicode"},
		{"bad UTF-8", "a.jsonl", "{\"id\":1,\"x\":\"\xff\"}", 0, "a.jsonl:1: the row is not valid UTF-8"},
		{"NUL", "a.jsonl", "{\"id\":1,\"x\":\"a\x00b\"}", 0, "a.jsonl:1: the row is not JSON"},
		{"UTF-16", "a.jsonl", "\xff\xfe{\x00}\x00", 0, "a.jsonl: the file is UTF-16; convert it first"},
		{"empty", "a.jsonl", "", 0, "dataset has no items"},
		{"only blank lines", "a.jsonl", "\n\n \n", 0, "dataset has no items"},
		{"row over the limit", "a.jsonl", `{"id":1}` + "\n" + `{"id":2,"x":"` + strings.Repeat("x", 9_999_500) + "\"}\n", 1, "a.jsonl:2: the item has 9999515 bytes; a message carries at most 9999231; keep large items in a bucket with --spill"},
		{"row that is not read", "a.jsonl", `{"id":1}` + "\n" + `{"id":2,"x":"` + strings.Repeat("x", maxRow) + "\"}\n", 1, "a.jsonl:2: the row has 33554448 bytes; at most 33554432 are read"},

		{"csv: too few columns", "a.csv", "id,x\n1,a\n2\n3,c\n", 1, "a.csv:3: the row has 1 columns, the header has 2"},
		{"csv: too many columns", "a.csv", "id,x\n1,\"a\nb\"\n2,b,c\n", 1, "a.csv:4: the row has 3 columns, the header has 2"},
		{"csv: bare quote", "a.csv", "id,x\n1,a\"b\n", 0, "a.csv:2: column 2: the row is not CSV: a quote inside a field"},
		{"csv: open quote", "a.csv", "id,x\n1,\"a\n2,b\n", 0, "a.csv:2: a quote in this row is never closed"},
		{"csv: bad UTF-8", "a.csv", "id,x\n1,a\n2,\xff\xfe\n", 1, "a.csv:3: column 2 (x): \"\\xff\\xfe\" is not valid UTF-8"},
		{"csv: NUL", "a.csv", "id,x\n1,a\x00b\n", 0, "a.csv:2: column 2 (x): \"a\\x00b\" holds a NUL byte"},
		{"csv: no id column", "a.csv", "ID,x\n1,a\n", 0, `a.csv:1: no column "id" in the header (ID, x); name the column with the ID with --id-field`},
		{"csv: column twice", "a.csv", "id,x,x\n1,a,b\n", 0, `a.csv:1: column "x" occurs twice`},
		{"csv: CR alone", "a.csv", "id,x\r1,a\r2,b\r", 0, "a.csv: the lines end in CR alone"},
		{"csv: UTF-16", "a.csv", "\xfe\xff\x00i\x00d", 0, "a.csv: the file is UTF-16"},
		{"csv: empty", "a.csv", "", 0, "a.csv: the file is empty"},
		{"csv: header only", "a.csv", "id,x\n", 0, "dataset has no items"},
		{"csv: a quote that is never closed", "a.csv", "id,x\n1,a\n2,\"" + strings.Repeat(strings.Repeat("y", 1023)+"\n", maxRow/1000), 1, "a.csv:3: a quote in this row is never closed"},
		{"csv: row over the limit", "a.csv", "id,x\n1,\"" + strings.Repeat("\n", 9_999_000/2+400) + "\"\n", 0, "a.csv:2: the item has"},

		{"unknown format", "a.orc", "x", 0, `a.orc: unknown format ".orc"; say --format csv, tsv`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			items, err := read(t, write(t, map[string]string{test.file: test.content}), Options{}, test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %v", err)
			}
			if len(items) != test.good {
				t.Errorf("%d items before the error, want %d", len(items), test.good)
			}
		})
	}
}

func TestLongLinesDoNotEndTheFile(t *testing.T) {
	content := "{\"id\":1}\n{\"id\":2,\"x\":\"" + strings.Repeat("x", 70<<10) + "\"}\n" +
		"{\"id\":3,\"x\":\"" + strings.Repeat("y", 9_999_000-100) + "\"}\n{\"id\":4}\n"
	items, err := read(t, write(t, map[string]string{"a.jsonl": content}), Options{}, "a.jsonl")
	if err != nil || len(items) != 4 {
		t.Fatalf("%d items and error %v, want 4", len(items), err)
	}
}

func TestFilesOfADirectory(t *testing.T) {
	dir := write(t, map[string]string{
		"in/b.png": "b", "in/a/1.JPG": "j", "in/a/2": "%PDF-1.7", "in/rows.csv": "id\n1\n", "in/empty.txt": "",
		"in/.hidden": "no", "in/.git/config": "no", "in/a/.DS_Store": "no",
		"elsewhere/c.gif": "c",
	})
	if err := os.Symlink(filepath.Join(dir, "elsewhere/c.gif"), filepath.Join(dir, "in/link.gif")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "in"), filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	want := []got{
		{"a/1.JPG", "image/jpeg", "j", "a/1.JPG"},
		{"a/2", "application/pdf", "%PDF-1.7", "a/2"},
		{"b.png", "image/png", "b", "b.png"},
		{"empty.txt", "text/plain", "", "empty.txt"},
		{"link.gif", "image/gif", "c", "link.gif"},
		{"rows.csv", "text/csv", "id\n1\n", "rows.csv"},
	}
	for _, root := range []string{"in", "in/", "alias"} {
		items, err := read(t, dir, Options{}, root)
		if err != nil {
			t.Fatal(err)
		}
		for i := range items {
			items[i].At = strings.TrimPrefix(items[i].At, filepath.Clean(root)+"/")
		}
		if diff := cmp.Diff(want, items); diff != "" {
			t.Errorf("items of %s (-want +got):\n%s", root, diff)
		}
	}
}

func TestBadDirectories(t *testing.T) {
	link := func(to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink(to, filepath.Join(dir, "in", "link")); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name  string
		files map[string]string
		setup func(*testing.T, string)
		want  string
	}{
		{"does not exist", map[string]string{"other": ""}, nil, "in does not exist; give an existing file"},
		{"only hidden files", map[string]string{"in/.a": "x"}, nil, "dataset has no items"},
		{"link to a directory", map[string]string{"in/a": "x"}, link("."), "in/link is a link to a directory"},
		{"link to nowhere", map[string]string{"in/a": "x"}, link("nowhere"), "in/link: no such file or directory"},
		{"too large", map[string]string{"in/a": strings.Repeat("x", 9_999_500)}, nil, "in/a: the item has 9999500 bytes; a message carries at most 9999231"},
		{"name", map[string]string{"in/a\nb": "x"}, nil, "has a control character"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, test.files)
			if test.setup != nil {
				test.setup(t, dir)
			}
			if _, err := read(t, dir, Options{}, "in"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestSurveyDoesNotReadFiles(t *testing.T) {
	dir := write(t, map[string]string{"in/a": "secret", "x.jsonl": `{"id":"b"}`})
	d, err := Open(t.Context(), []string{filepath.Join(dir, "in"), filepath.Join(dir, "x.jsonl")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for e, err := range d.Survey(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Position.Line == 0 && e.Data != nil {
			t.Errorf("survey read %s", e.Position)
		}
		ids = append(ids, e.ItemID)
	}
	if diff := cmp.Diff([]string{"a", "b"}, ids); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if want := filepath.Join(dir, "in") + " " + filepath.Join(dir, "x.jsonl"); d.Name() != want {
		t.Errorf("name %q, want %q", d.Name(), want)
	}
}

func TestEmptySourceBesideAFullOne(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": "", "b.jsonl": `{"id":1}`})
	items, err := read(t, dir, Options{}, "a.jsonl", "b.jsonl")
	if err != nil || len(items) != 1 {
		t.Errorf("%d items, error %v; want 1", len(items), err)
	}
	if _, err = read(t, dir, Options{}, "a.jsonl"); !errors.Is(err, errEmpty) {
		t.Errorf("error %v, want %v", err, errEmpty)
	}
}
