package dataset

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func FuzzJSONL(f *testing.F) {
	for _, seed := range []string{
		"{\"id\":1}\n{\"id\":\"b\"}\n", "\xef\xbb\xbf{\"id\":1}", `{"a":{"id":[1,{"b":"}"}]},"id":-0.5e1}`,
		`{"\u0069d":"\ud83d\ude00"}`, "{\"id\":1\n", `{"id":1,"id":2}`, "[]", "\xff\xfe{", `{"":"","id":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		var lines [][]byte
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines = append(lines, bytes.TrimSuffix(line, []byte("\r")))
			}
		}
		count := 0
		for e, err := range rowsOf(t, "f.jsonl", data, Options{}).entries(t.Context(), Position{}, true) {
			if err != nil {
				return
			}
			if !bytes.Equal(e.Data, lines[count]) {
				t.Fatalf("row %d is %q, want %q", count, e.Data, lines[count])
			}
			// The standard decoder must see the same ID under the same key.
			var row map[string]json.RawMessage
			if err := json.Unmarshal(e.Data, &row); err != nil {
				t.Fatalf("row %q: %v", e.Data, err)
			}
			var id any = string(row["id"])
			if strings.HasPrefix(string(row["id"]), `"`) {
				if err := json.Unmarshal(row["id"], &id); err != nil {
					t.Fatal(err)
				}
			}
			if id != e.ItemID {
				t.Fatalf("ID of %q is %q, want %q", e.Data, e.ItemID, id)
			}
			count++
		}
		if count != len(lines) {
			t.Fatalf("%d rows, want %d", count, len(lines))
		}
	})
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"id,x\n1,a\n2,b\n", "\xef\xbb\xbf\"id\",\"x\"\r\n1,\"a\r\nb\"\r\n", "id\n1\n\n2", "id,x\n1,\"a\"\"b\"\n",
		"id,id\n", "id,x\n1\n", "id\r1\r", "id,\"\n", "\xff\xfei",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		want, wantErr := csv.NewReader(bytes.NewReader(text)).ReadAll()
		count := 0
		for e, err := range rowsOf(t, "f.csv", data, Options{}).entries(t.Context(), Position{}, true) {
			if err != nil {
				return
			}
			count++
			var row map[string]string
			if err := json.Unmarshal(e.Data, &row); err != nil {
				t.Fatalf("payload %q: %v", e.Data, err)
			}
			if wantErr != nil {
				continue
			}
			wantRow := map[string]string{}
			for i, name := range want[0] {
				wantRow[name] = want[count][i]
				// The standard reader changes these line ends.
				row[name] = strings.ReplaceAll(row[name], "\r\n", "\n")
			}
			if diff := cmp.Diff(wantRow, row); diff != "" {
				t.Fatalf("row %d (-want +got):\n%s", count, diff)
			}
			if e.ItemID != row["id"] {
				t.Fatalf("ID %q of %q", e.ItemID, e.Data)
			}
		}
		if wantErr != nil || count != len(want)-1 {
			t.Fatalf("%d rows without an error, want %d with %v", count, len(want)-1, wantErr)
		}
	})
}

// FuzzGoOn reads any text in every format with any number of bad rows: nothing
// panics, every byte is accounted for, and what comes after a position is the
// same as in an undisturbed reading.
func FuzzGoOn(f *testing.F) {
	for _, seed := range []string{
		"id,x\n1,a\n2,\"b\r\n\"\"\"\n\n3\n\"4\"x,y\n5,\xff\n", "{\"id\":1}\n{\"id\":\n\n{\"id\":2}\r\n[]\n", "\xef\xbb\xbfid\n1\r\n2", "a\n\x00\nb",
	} {
		for format := range byte(4) {
			f.Add([]byte(seed), format, uint16(1))
		}
	}
	formats := []Format{FormatCSV, FormatTSV, FormatJSONL, FormatLines}
	f.Fuzz(func(t *testing.T, data []byte, format byte, stop uint16) {
		src := rowsOf(t, "f", data, Options{Format: formats[int(format)%len(formats)], MaxBadRows: -1})
		look := func(after Position) (positions []Position, seen []string) {
			for e, err := range src.entries(t.Context(), after, true) {
				positions = append(positions, e.Position)
				seen = append(seen, fmt.Sprintf("%q %q %v %v", e.ItemID, e.Data, e.Position, err))
			}
			return positions, seen
		}
		positions, whole := look(Position{})
		if len(positions) == 0 {
			return
		}
		for i, at := range positions {
			if at.Row > 0 && (at.Row != int64(i)+1 || at.Offset > int64(len(data)) || i > 0 && positions[i-1].Offset > at.Offset) {
				t.Fatalf("positions %v", positions)
			}
		}
		i := int(stop) % len(positions)
		if positions[i].Row == 0 {
			return // the error at the end
		}
		if _, rest := look(positions[i]); !slices.Equal(rest, whole[i+1:]) {
			t.Fatalf("after %d:\n%s\nwant:\n%s", i, strings.Join(rest, "\n"), strings.Join(whole[i+1:], "\n"))
		}
	})
}

// FuzzParquet changes bytes of right files: whatever comes of it is rows or an
// error.
func FuzzParquet(f *testing.F) {
	files, err := filepath.Glob("testdata/parquet/*.parquet")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := rowsOf(t, "f.parquet", data, Options{Format: FormatParquet, MaxBadRows: -1})
		rows := 0
		for e, err := range src.entries(t.Context(), Position{}, true) {
			if rows++; rows > 100_000 {
				return // a few bytes can say that a value comes a billion times
			}
			if err == nil && !json.Valid(e.Data) {
				t.Fatalf("row %d: %q", rows, e.Data)
			}
		}
	})
}

// FuzzCompressed reads bytes that begin like compressed ones.
func FuzzCompressed(f *testing.F) {
	f.Add([]byte(gzipped(f, "{\"id\":1}\n", "{\"id\":2}\n")))
	f.Add([]byte(zstded(f, "{\"id\":1}\n", "{\"id\":2}\n")))
	f.Add([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00note"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := 0
		for _, err := range rowsOf(t, "f", data, Options{Format: FormatJSONL}).entries(t.Context(), Position{}, true) {
			if err != nil {
				return
			}
			rows++
		}
		if rows > 0 && len(data) == 0 {
			t.Fatal("rows of nothing")
		}
	})
}

// FuzzCanonical: the canonical form says the same, is its own canonical form,
// and does not depend on the order of members.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1.50,{"y":"\u00e4\/","x":null}],"a":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `[]`, `"\ud800"`, ` -0 `, `{"a":{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) {
			return
		}
		once := canonical(nil, bytes.TrimSpace(data))
		if !json.Valid(once) {
			t.Fatalf("%q becomes %q", data, once)
		}
		if twice := canonical(nil, once); !bytes.Equal(once, twice) {
			t.Fatalf("%q becomes %q, then %q", data, once, twice)
		}
		var want, got any
		if json.Unmarshal(data, &want) == nil && json.Unmarshal(once, &got) == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q becomes %q (-want +got):\n%s", data, once, diff)
			}
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("a/**/b*.csv", "a/x/y/bc.csv")
	f.Add("**", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if checkGlob(pattern) != nil || strings.Count(pattern, "**") > 5 {
			return
		}
		if matchGlob(pattern, name) && !strings.ContainsAny(pattern, `*?[\`) && pattern != name {
			t.Fatalf("%q matches %q", pattern, name)
		}
		if !strings.Contains(pattern, "**") && matchGlob(pattern, name) != func() bool { ok, _ := path.Match(pattern, name); return ok }() {
			t.Fatalf("%q and %q: not as path.Match", pattern, name)
		}
	})
}
