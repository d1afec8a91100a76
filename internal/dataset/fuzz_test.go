package dataset

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

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
