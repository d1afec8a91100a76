package dataset

import (
	"encoding/binary"
	"math/bits"
)

// maxNesting is how deep arrays and objects may stand in each other, as in
// encoding/json.
const maxNesting = 10_000

// validJSON tells whether data is one JSON document, just as json.Valid does.
// That one looks at each byte by itself, and would cost more than all the rest
// of publishing a row.
func validJSON(data []byte) bool {
	v := validator{scanner{data: data}}
	v.space()
	if !v.document(0) {
		return false
	}
	v.space()
	return v.pos == len(data)
}

// validator steps over a document that may be anything.
type validator struct{ scanner }

// at tells whether the next byte is c, and moves past it if it is.
func (v *validator) at(c byte) bool {
	if v.pos < len(v.data) && v.data[v.pos] == c {
		v.pos++
		return true
	}
	return false
}

// document moves past a value, and tells whether it is one.
func (v *validator) document(depth int) bool {
	if v.pos == len(v.data) {
		return false
	}
	switch c := v.data[v.pos]; c {
	case '"':
		v.pos++
		return v.string()
	case '{':
		v.pos++
		return depth < maxNesting && v.object(depth+1)
	case '[':
		v.pos++
		return depth < maxNesting && v.array(depth+1)
	case 't':
		return v.word("true")
	case 'f':
		return v.word("false")
	case 'n':
		return v.word("null")
	default:
		return v.number()
	}
}

func (v *validator) word(word string) bool {
	if len(v.data)-v.pos < len(word) || string(v.data[v.pos:v.pos+len(word)]) != word {
		return false
	}
	v.pos += len(word)
	return true
}

// object is called behind the bracket, as array is.
func (v *validator) object(depth int) bool {
	v.space()
	if v.at('}') {
		return true
	}
	for {
		v.space()
		if !v.at('"') || !v.string() {
			return false
		}
		v.space()
		if !v.at(':') {
			return false
		}
		v.space()
		if !v.document(depth) {
			return false
		}
		v.space()
		if v.at('}') {
			return true
		}
		if !v.at(',') {
			return false
		}
	}
}

func (v *validator) array(depth int) bool {
	v.space()
	if v.at(']') {
		return true
	}
	for {
		v.space()
		if !v.document(depth) {
			return false
		}
		v.space()
		if v.at(']') {
			return true
		}
		if !v.at(',') {
			return false
		}
	}
}

// string is called behind the opening quote.
func (v *validator) string() bool {
	for {
		v.pos = special(v.data, v.pos)
		if v.pos == len(v.data) || v.data[v.pos] < ' ' {
			return false
		}
		if v.at('"') {
			return true
		}
		v.pos++ // the backslash
		if v.pos == len(v.data) {
			return false
		}
		c := v.data[v.pos]
		v.pos++
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if v.pos == len(v.data) || !isHex(v.data[v.pos]) {
					return false
				}
				v.pos++
			}
		default:
			return false
		}
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (v *validator) number() bool {
	v.at('-')
	if !v.at('0') && !v.digits() {
		return false
	}
	if v.at('.') && !v.digits() {
		return false
	}
	if v.at('e') || v.at('E') {
		if !v.at('+') {
			v.at('-')
		}
		return v.digits()
	}
	return true
}

// digits moves past at least one.
func (v *validator) digits() bool {
	from := v.pos
	for v.pos < len(v.data) && '0' <= v.data[v.pos] && v.data[v.pos] <= '9' {
		v.pos++
	}
	return v.pos > from
}

// Eight bytes of the same value.
const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	quotes = '"' * ones
	slants = '\\' * ones
	spaces = ' ' * ones
)

// special returns the place of the next quote, backslash or control character,
// or len(data). It looks at eight bytes at once.
func special(data []byte, pos int) int {
	for ; pos+8 <= len(data); pos += 8 {
		word := binary.LittleEndian.Uint64(data[pos:])
		quote, slant := word^quotes, word^slants
		// A byte's high bit is set where the byte is zero, or below a space.
		// Bytes above the first such one may be wrong, the first never is.
		found := ((quote-ones) & ^quote | (slant-ones) & ^slant | (word-spaces) & ^word) & highs
		if found != 0 {
			return pos + bits.TrailingZeros64(found)/8
		}
	}
	for ; pos < len(data); pos++ {
		if c := data[pos]; c == '"' || c == '\\' || c < ' ' {
			return pos
		}
	}
	return pos
}
