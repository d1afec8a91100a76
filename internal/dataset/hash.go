package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// hashRow returns the SHA-256 of the canonical row: without white space, the
// members of objects in the order of their names, texts written in one way and
// numbers as they stand. A line of text is its own canonical form.
func hashRow(data []byte, format Format) string {
	if format != FormatLines {
		data = canonical(nil, bytes.TrimSpace(data))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// canonical appends the canonical form of a valid JSON value.
func canonical(dst, value []byte) []byte {
	switch value[0] {
	case '"':
		return canonicalText(dst, value)
	case '{':
		return canonicalObject(dst, value)
	case '[':
		dst = append(dst, '[')
		first := true
		s := scanner{data: value, pos: 1}
		for element := range s.elements(']') {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = canonical(dst, element)
		}
		return append(dst, ']')
	}
	return append(dst, value...)
}

func canonicalText(dst, quoted []byte) []byte {
	text, exact := unquote(quoted)
	if !exact {
		return append(dst, quoted...) // half a surrogate pair has no other form
	}
	return appendJSON(dst, text)
}

func canonicalObject(dst, object []byte) []byte {
	type pair struct{ key, value []byte }
	var pairs []pair
	s := scanner{data: object, pos: 1}
	var key []byte
	for element := range s.elements('}') {
		if key == nil {
			key = canonicalText(nil, element)
			continue
		}
		pairs = append(pairs, pair{key, element})
		key = nil
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, p := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canonical(append(append(dst, p.key...), ':'), p.value)
	}
	return append(dst, '}')
}
