package dataset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// documents are valid and invalid ones.
var documents = []string{
	``, ` `, `{}`, ` { } `, `[]`, `[ ]`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"b":[1,2,{"c":null}]}`,
	`[1,]`, `[,1]`, `[1 2]`, `[`, `{`, `]`, `}`, `[}`, `{]`, `"`, `"a`, `"a"`, `"a"b`, `""`, `"\"`, `"\""`, `"\\"`, `"\/\b\f\n\r\t"`, `"\u12aF"`, `"\u12a"`, `"\u12ag"`,
	`"\x"`, `"\`, `"\u`, "\"\x1f\"", "\"\x7f\xff\"", "\"\t\"", "\"long enough to be read at once\x01\"", `"1234567\"89"`, `"12345678"`, `"1234567"`,
	`0`, `-0`, `00`, `01`, `1.`, `1.5`, `.5`, `-`, `-1`, `+1`, `1e5`, `1e`, `1e+`, `1E-5`, `1e5.5`, `0e1`, `9007199254740993`, `1 2`,
	`true`, `tru`, `truex`, `false`, `null`, `nul`, `NaN`, `Infinity`, "\ufeff{}", "{\n\t\"a\"\r:\v1}", "{\x00}", "\"\x00\"", `'a'`, `/**/1`,
}

func TestValidJSONAgreesWithTheLibrary(t *testing.T) {
	all := append([]string{}, documents...)
	for _, depth := range []int{maxNesting - 1, maxNesting, maxNesting + 1} {
		all = append(all,
			strings.Repeat("[", depth)+strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	for n := range 20 { // the end of a string at every place of a word
		text := strings.Repeat("é", n)
		all = append(all, `"`+text+`"`, `"`+text, `"`+text+"\n\"", `{"`+text+`\\":"`+text+`"}`)
	}
	for _, text := range all {
		if got, want := validJSON([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: valid %t, want %t", text, got, want)
		}
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, text := range documents {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := validJSON(data), json.Valid(data); got != want {
			t.Errorf("%q: valid %t, want %t", data, got, want)
		}
	})
}

func BenchmarkValidJSON(b *testing.B) {
	row := fmt.Appendf(nil, `{"id":%d,"text":"%s","n":[1,2,3.5]}`, 7, strings.Repeat("some words ", 90))
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		if !validJSON(row) {
			b.Fatal("not valid")
		}
	}
}
