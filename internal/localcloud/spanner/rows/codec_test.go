package rows

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ascending has values of each kind in the order that the service sorts them in.
var ascending = map[string][]any{
	"bool":    {nil, false, true},
	"int64":   {nil, int64(math.MinInt64), int64(-1), int64(0), int64(1), int64(255), int64(256), int64(math.MaxInt64)},
	"float64": {nil, math.NaN(), math.Inf(-1), -1.5, -math.SmallestNonzeroFloat64, 0.0, math.SmallestNonzeroFloat64, 1.5, math.Inf(1)},
	"string":  {nil, "", "\x00", "\x00\x00", "\x00a", "\x01", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "ä", "\xff", "\xff\xff"},
	"bytes":   {nil, []byte{}, []byte{0}, []byte{0, 255}, []byte{1}, []byte{255}},
	"timestamp": {
		nil, minTimestamp, time.Unix(-1, 999_999_999).UTC(), time.Unix(0, 0).UTC(), time.Unix(0, 1).UTC(),
		time.Unix(1, 0).UTC(), maxTimestamp,
	},
}

func TestKeysSortAsTheirValues(t *testing.T) {
	for name, values := range ascending {
		for i := range values {
			for j := range values {
				want := min(1, max(-1, i-j))
				if got := Compare(values[i], values[j]); got != want {
					t.Errorf("%s: Compare(%#v, %#v) = %d, want %d", name, values[i], values[j], got, want)
				}
				for _, desc := range []bool{false, true} {
					a, b := string(appendKeyPart(nil, values[i], desc)), string(appendKeyPart(nil, values[j], desc))
					if desc {
						a, b = b, a
					}
					if got := strings.Compare(a, b); got != want {
						t.Errorf("%s, desc %v: key order of %#v and %#v = %d, want %d", name, desc, values[i], values[j], got, want)
					}
				}
			}
		}
	}
}

// No key may be the start of another one: a span of one key would hold both.
func TestNoKeyStartsAnother(t *testing.T) {
	for name, values := range ascending {
		for i, value := range values {
			for j, other := range values {
				a, b := string(appendKeyPart(nil, value, false)), string(appendKeyPart(nil, other, false))
				if i != j && strings.HasPrefix(a, b) {
					t.Errorf("%s: the key of %#v starts with the key of %#v", name, value, other)
				}
			}
		}
	}
}

func TestEqualFloatsHaveOneKey(t *testing.T) {
	negativeNaN := math.Copysign(math.NaN(), -1)
	for _, pair := range [][2]float64{{0, math.Copysign(0, -1)}, {math.NaN(), negativeNaN}} {
		if a, b := appendKeyPart(nil, pair[0], false), appendKeyPart(nil, pair[1], false); !slices.Equal(a, b) {
			t.Errorf("keys of %v and %v differ: %x, %x", pair[0], pair[1], a, b)
		}
	}
}

func TestRowsComeBack(t *testing.T) {
	var row []any
	for _, values := range ascending {
		row = append(row, values...)
	}
	got := make([]any, len(row)+2) // two columns were added since
	got[0], got[len(row)] = "left over", "left over"
	if err := decodeRow(encodeRow(row), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(slices.Clone(row), nil, nil), got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add(encodeRow([]any{nil, true, int64(-7), 1.5, "text", []byte("bytes"), time.Unix(1, 2)}))
	f.Add("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, stored string) {
		row := make([]any, 5)
		if err := decodeRow(stored, row); err != nil {
			return
		}
		again := make([]any, 5)
		if err := decodeRow(encodeRow(row), again); err != nil {
			t.Fatalf("decode of an encoded row: %v", err)
		}
		if diff := cmp.Diff(row, again, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("row changed (-first +second):\n%s", diff)
		}
	})
}

func FuzzKeyOrder(f *testing.F) {
	f.Add("a", "a\x00", int64(1), int64(-1))
	f.Fuzz(func(t *testing.T, s1, s2 string, n1, n2 int64) {
		want := strings.Compare(s1, s2)
		if want == 0 {
			want = Compare(n1, n2)
		}
		key := func(s string, n int64) string {
			return string(appendKeyPart(appendKeyPart(nil, s, false), n, false))
		}
		if got := strings.Compare(key(s1, n1), key(s2, n2)); got != want {
			t.Errorf("key order of (%q, %d) and (%q, %d) = %d, want %d", s1, n1, s2, n2, got, want)
		}
	})
}
