package dataset

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// TestValuesThatJSONCannotHold makes bad rows of them, and their neighbours
// stay.
func TestValuesThatJSONCannotHold(t *testing.T) {
	type row struct {
		ID   *int64  `parquet:"id,optional"`
		X    float64 `parquet:"x"`
		Text string  `parquet:"text"`
		Doc  []byte  `parquet:"doc,json"`
	}
	id := func(n int64) *int64 { return &n }
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{
		{id(math.MaxInt64), math.MaxFloat64, "a", []byte("{\n \"b\" : 1.50}")},
		{id(2), math.Inf(-1), "b", []byte("1")},
		{id(3), math.NaN(), "c", []byte("1")},
		{id(4), 1, "\xff\xfe", []byte("1")},
		{id(5), 5e-324, "a\x00b", []byte("1")},
		{id(6), 0.1, "f", []byte("{")},
		{nil, 1, "g", []byte("1")},
		{id(math.MinInt64), math.Copysign(0, -1), "", []byte("null")},
	}); err != nil {
		t.Fatal(err)
	}
	src := rowsOf(t, "a.parquet", file.Bytes(), Options{MaxBadRows: -1})
	var rows []string
	for e, err := range src.entries(t.Context(), Position{}, true) {
		if bad, is := errors.AsType[*BadRow](err); is {
			rows = append(rows, bad.Error())
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, e.ItemID+" "+string(e.Data))
	}
	want := []string{
		`9223372036854775807 {"id":9223372036854775807,"x":1.7976931348623157e+308,"text":"a","doc":{"b":1.50}}`,
		"a.parquet row 2: column x: the value is infinite, which JSON cannot hold",
		`3 {"id":3,"x":null,"text":"c","doc":1}`,
		`a.parquet row 4: column text: "\xff\xfe" is not valid UTF-8`,
		`a.parquet row 5: column text: "a\x00b" holds a NUL byte`,
		`a.parquet row 6: column doc: the value is not JSON: unexpected end of JSON input`,
		`a.parquet row 7: field "id" is null; give every row an ID, or name another field with --id-field`,
		`-9223372036854775808 {"id":-9223372036854775808,"x":-0,"text":"","doc":null}`,
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestLargeRows: what is larger than is read is a bad row, in one text or in
// many.
func TestLargeRows(t *testing.T) {
	type row struct {
		ID   int              `parquet:"id"`
		Text string           `parquet:"text,zstd"`
		List []string         `parquet:"list,zstd,list"`
		Map  map[string]int64 `parquet:"map"`
	}
	part := strings.Repeat("x", 1<<20)
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{
		{ID: 1}, {ID: 2, Text: strings.Repeat(part, 33)}, {ID: 3}, {ID: 4, List: slices.Repeat([]string{part}, 40), Map: map[string]int64{"a": 1, "b": 2}}, {ID: 5, Text: "last"},
	}); err != nil {
		t.Fatal(err)
	}
	src := rowsOf(t, "a.parquet", file.Bytes(), Options{MaxBadRows: -1})
	var seen []string
	for e, err := range src.entries(t.Context(), Position{}, true) {
		if err == nil {
			seen = append(seen, e.ItemID)
			continue
		}
		seen = append(seen, err.Error())
	}
	const bad = "the row has more than 33554432 bytes; no more are read"
	if diff := cmp.Diff([]string{"1", "a.parquet row 2: " + bad, "3", "a.parquet row 4: " + bad, "5"}, seen); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// readAll returns the number of rows before the error at the end.
func readAll(tb testing.TB, data []byte) (rows int, err error) {
	tb.Helper()
	src := rowsOf(tb, "f.parquet", data, Options{Format: FormatParquet})
	for _, err := range src.entries(tb.Context(), Position{}, true) {
		if _, bad := errors.AsType[*BadRow](err); err != nil && !bad {
			return rows, err
		}
		if rows++; rows > 100_000 {
			break
		}
	}
	return rows, nil
}

// TestBrokenParquet changes some bytes of right files, and cuts them: whatever
// comes of it is rows or an error, in little time and memory, and a file that
// is cut is always an error.
func TestBrokenParquet(t *testing.T) {
	files, err := filepath.Glob("testdata/parquet/*.parquet")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for i, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(uint64(i), 7))
		for range 30 {
			data := bytes.Clone(whole)
			for range 1 + random.IntN(4) {
				data[random.IntN(len(data))] = byte(random.IntN(256))
			}
			_, _ = readAll(t, data) // no panic, and it ends
			if rows, err := readAll(t, whole[:random.IntN(len(whole))]); err == nil {
				t.Errorf("%s, cut: %d rows and no error", file, rows)
			}
		}
	}
}

func TestParquetThatIsNone(t *testing.T) {
	type row struct {
		ID int `parquet:"id"`
	}
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{{1}}); err != nil {
		t.Fatal(err)
	}
	good := file.String()
	for _, test := range []struct {
		content string
		opts    Options
		want    string
	}{
		{"", Options{}, "the file is not right Parquet, or cut: it has 0 bytes"},
		{"id\n1\n2\n3\n4\n5\n", Options{}, "the file is not right Parquet, or cut: it does not begin and end with PAR1"},
		{good[:len(good)-1], Options{}, "it does not begin and end with PAR1"},
		{strings.Replace(good, "PAR1", "PARE", 1), Options{}, "the file is encrypted Parquet, which is not read"},
		{good[:len(good)-8] + "\xff\xff\xff\xef" + "PAR1", Options{}, "a footer of 4026531839 bytes in a file of"},
		{good, Options{IDField: "key"}, `no column "key" in the file (id); name the column with the ID with --id-field`},
		{good, Options{Columns: []string{"x"}}, `no column "x" in the file (id); name columns that it has with --columns`},
	} {
		_, err := read(t, write(t, map[string]string{"a.parquet": test.content}), test.opts, "a.parquet")
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "a.parquet: ") {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}
