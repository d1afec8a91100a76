package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func FuzzParseReply(f *testing.F) {
	for _, seed := range []string{
		`{"batch":"b1","results":[{"item_id":"a","output":{"x":1.50}},{"item_id":"b","error":{"class":"item_error","message":"m"}}]}`,
		`{"batch":"b1","error":{"class":"out_of_memory","message":"m"}}`,
		`{"batch":"b1","results":[{"item_id":"a","output":[NaN,-Infinity]},{"item_id":"b","output":"NaN \" \\"}]}`,
		`{"batch":"b1","results":[{"item_id":"a","output":null,"error":null},{"item_id":"a"}]}`,
		`{"batch":"b1","results":null}`, `{"batch":"b2"}`, `NaN`, `"`, `{"batch":"b1","results":[NaN]}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		outs, inStep, err := parseReply(line, "b1")
		if !bytes.Equal(before, line) {
			t.Error("the line was changed")
		}
		if err != nil {
			if len(outs) > 0 {
				t.Error("outputs beside an error")
			}
			if worker.ClassOf(err, "") == "" {
				t.Errorf("error %v has no class", err)
			}
			return
		}
		if !inStep {
			t.Error("good answer, but out of step")
		}
		for _, out := range outs {
			switch {
			case out.Err != nil && (out.Value != nil || worker.ClassOf(out.Err, "") == ""):
				t.Errorf("item %q: value %q beside error %v, or no class", out.ItemID, out.Value, out.Err)
			case out.Err == nil && (!json.Valid(out.Value) || !utf8.Valid(out.Value)):
				t.Errorf("item %q: output %q cannot be stored", out.ItemID, out.Value)
			case out.Err == nil && !bytes.Contains(line, out.Value):
				t.Errorf("item %q: output %q is not what the child wrote", out.ItemID, out.Value)
			}
		}
	})
}

func FuzzEncodeItem(f *testing.F) {
	f.Add("a", `{"n": 1.0}`)
	f.Add(`"]}`, "[1,\n\r2]")
	f.Add("é\u2028", `1}]}`)
	f.Fuzz(func(t *testing.T, id, data string) {
		it := item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(data)}
		part, err := encodeItem(it)
		if err != nil {
			return
		}
		line, err := encodeBatch("b1", []worker.Input{{Item: it, Value: part, Bytes: int64(len(part))}})
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.IndexAny(line, "\n\r"); i != len(line)-1 {
			t.Fatalf("line break at byte %d of %d", i, len(line))
		}
		var got struct {
			Items []struct {
				Data json.RawMessage `json:"data"`
			} `json:"items"`
		}
		if err := json.Unmarshal(line, &got); err != nil || len(got.Items) != 1 {
			t.Fatalf("batch line %q: %v, %d items; want 1", line, err, len(got.Items))
		}
		want := strings.Trim(strings.NewReplacer("\n", " ", "\r", " ").Replace(data), " \t")
		if diff := cmp.Diff(want, string(got.Items[0].Data)); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	})
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 100)
	r := bufio.NewReaderSize(strings.NewReader("short\n"+long+"\n\nend"), 16)
	for _, want := range []string{"short", long, ""} {
		line, err := readLine(r, 100)
		if err != nil || string(line) != want {
			t.Errorf("readLine = %q, %v; want %q", line, err, want)
		}
	}
	if line, err := readLine(r, 100); err == nil {
		t.Errorf("readLine = %q; want an error, since the line has no end", line)
	}
	r = bufio.NewReaderSize(strings.NewReader(long+"x\n"), 16)
	if _, err := readLine(r, 100); !errors.Is(err, errLongLine) {
		t.Errorf("readLine = %v; want errLongLine", err)
	}
}

func TestMessageIsFitForRows(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"control characters", "a\nb\x00\x1b[1m", "a b  [1m"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"cut between characters", strings.Repeat("é", 2000) + "x", strings.Repeat("é", 1024)},
		{"cut inside a character", "x" + strings.Repeat("é", 2000), "x" + strings.Repeat("é", 1023)},
	} {
		if got := message(tc.text); got != tc.want {
			t.Errorf("%s: message(%.20q) = %.40q (%d bytes); want %.40q (%d bytes)", tc.name, tc.text, got, len(got), tc.want, len(tc.want))
		}
	}
}
