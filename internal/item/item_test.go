package item_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/item"
)

func TestCheckRunID(t *testing.T) {
	for _, tt := range []struct {
		id, want string
	}{
		{"digits-2026.01_b", ""},
		{strings.Repeat("a", 64), ""},
		{"", "run_id is empty"},
		{strings.Repeat("a", 65), "at most 64"},
		{"a b", "at byte 1"},
		{"a/b", "at byte 1"},
		{"ü", "at byte 0"},
		{"a\x00", "at byte 1"},
	} {
		checkError(t, tt.id, item.CheckRunID(tt.id), tt.want)
	}
}

func TestCheckItemID(t *testing.T) {
	for _, tt := range []struct {
		id, want string
	}{
		{"9007199254740993", ""},
		{"007", ""},
		{"sub dir/ü ☃.png", ""},
		{strings.Repeat("a", 256), ""},
		{strings.Repeat("ü", 128), ""},
		{"", "item_id is empty"},
		{strings.Repeat("a", 257), "257 bytes; at most 256"},
		{strings.Repeat("ü", 129), "258 bytes; at most 256"},
		{"a\xffb", "not valid UTF-8"},
		{"a\nb", "control character at byte 1"},
		{"a\u0085b", "control character at byte 1"},
	} {
		checkError(t, tt.id, item.CheckItemID(tt.id), tt.want)
	}
}

func checkError(t *testing.T, id string, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("%.20q: no error, want one with %q", id, want)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("%.20q: got %v, want %q", id, err, want)
	}
}

func TestMessageRoundTrip(t *testing.T) {
	for _, it := range []item.Item{
		{Key: item.Key{RunID: "r", ItemID: "007"}, ContentType: item.ContentTypeJSON, Data: []byte(`{"n":9007199254740993}`)},
		{Key: item.Key{RunID: "r", ItemID: "a/b.png"}, ContentType: "image/png", Data: []byte{0, 0xff}},
		{Key: item.Key{RunID: "r", ItemID: "far"}, ContentType: "image/png", URI: "gs://b/far#3"},
		{Key: item.Key{RunID: "r", ItemID: "empty"}, ContentType: "text/plain"},
	} {
		attrs := it.Attributes()
		attrs["googclient_traceparent"] = "00-1-2-01" // others add their own
		got, err := item.Decode(it.Data, attrs)
		if err != nil {
			t.Errorf("decode %s: %v", it.ItemID, err)
		}
		if diff := cmp.Diff(it, got); diff != "" {
			t.Errorf("item %s after the round trip (-want +got):\n%s", it.ItemID, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	key := item.Key{RunID: "r", ItemID: "a"}
	for _, tt := range []struct {
		name    string
		data    string
		attrs   map[string]string
		foreign bool
		want    string
	}{
		{"no attributes", "x", nil, true, "run_id is empty"},
		{"no item", "x", map[string]string{"run_id": "r"}, true, "item_id is empty"},
		{"bad run", "x", map[string]string{"run_id": "r r", "item_id": "a"}, true, "run_id"},
		{"bad item", "x", map[string]string{"run_id": "r", "item_id": "\xff"}, true, "UTF-8"},
		{"no content type", "x", map[string]string{"run_id": "r", "item_id": "a"}, false, "content_type is missing"},
		{"data and uri", "x", map[string]string{"run_id": "r", "item_id": "a", "content_type": "t", "uri": "gs://b/o"}, false, "exactly one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			it, err := item.Decode([]byte(tt.data), tt.attrs)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if got := errors.Is(err, item.ErrForeign); got != tt.foreign {
				t.Errorf("foreign: got %t, want %t", got, tt.foreign)
			}
			if !tt.foreign && it.Key != key {
				t.Errorf("key: got %v, want %v, so that the failure can be recorded", it.Key, key)
			}
		})
	}
}

func TestIsJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "application/jsonl": false, "": false, "image/png": false,
	} {
		if got := (item.Item{ContentType: contentType}).IsJSON(); got != want {
			t.Errorf("%q: got %t, want %t", contentType, got, want)
		}
	}
}

// Whatever a message holds, what Decode accepts can be stored and sent again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("x"), "r", "a", "text/plain", "")
	f.Add([]byte(""), "r", "ü\x00", "", "gs://b/o")
	f.Fuzz(func(t *testing.T, data []byte, run, id, contentType, uri string) {
		attrs := map[string]string{item.AttrRunID: run, item.AttrItemID: id, item.AttrContentType: contentType}
		if uri != "" {
			attrs[item.AttrURI] = uri
		}
		it, err := item.Decode(data, attrs)
		if err != nil {
			return
		}
		if it.RunID != run || it.ItemID != id || len(id) > 256 || !utf8.ValidString(id) {
			t.Errorf("decoded key %+v of run %q and item %q", it.Key, run, id)
		}
		if diff := cmp.Diff(attrs, it.Attributes()); diff != "" {
			t.Errorf("attributes (-sent +again):\n%s", diff)
		}
	})
}
