package dataset

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
)

// member returns the value of the object's member with exactly this name, as
// the bytes that stand there. object must be valid JSON, trimmed of white
// space. The value of a missing member is nil. One that occurs twice is an
// error: encoding/json would take one of the two, and would take members whose
// names differ in case.
func member(object []byte, name string) ([]byte, error) {
	var found []byte
	s := scanner{data: object, pos: 1}
	for s.space(); s.data[s.pos] != '}'; s.space() {
		if s.data[s.pos] == ',' {
			s.pos++
			s.space()
		}
		key := s.value()
		s.space()
		s.pos++ // the colon
		s.space()
		value := s.value()
		if !sameName(key, name) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("field %q occurs twice in the row", name)
		}
		found = value
	}
	return found, nil
}

// sameName compares a quoted JSON string with a name.
func sameName(quoted []byte, name string) bool {
	if slices.Contains(quoted, '\\') {
		var plain string
		return json.Unmarshal(quoted, &plain) == nil && plain == name
	}
	return string(quoted[1:len(quoted)-1]) == name
}

// scanner steps over the values of a document that is known to be valid.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// elements yields the values of an array, or the keys and values of an object
// in turn, from behind its bracket up to the closing one.
func (s *scanner) elements(closing byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for s.space(); s.data[s.pos] != closing; s.space() {
			if c := s.data[s.pos]; c == ',' || c == ':' {
				s.pos++
				continue
			}
			if !yield(s.value()) {
				return
			}
		}
	}
}

// value returns the value at pos and moves past it.
func (s *scanner) value() []byte {
	start, depth := s.pos, 0
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case '"':
			s.text()
			if depth == 0 {
				return s.data[start:s.pos]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']', ',', ':', ' ', '\t', '\r', '\n':
			// At depth 0 these end a number or a word that began before.
			if depth == 0 {
				return s.data[start:s.pos]
			}
			if c == '}' || c == ']' {
				if depth--; depth == 0 {
					s.pos++
					return s.data[start:s.pos]
				}
			}
		}
		s.pos++
	}
	return s.data[start:s.pos]
}

// text moves past the string at pos.
func (s *scanner) text() {
	s.pos = special(s.data, s.pos+1)
	for s.data[s.pos] != '"' {
		s.pos = special(s.data, s.pos+2) // past a backslash and what it escapes
	}
	s.pos++
}
