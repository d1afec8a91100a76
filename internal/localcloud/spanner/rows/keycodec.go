package rows

import (
	"encoding/binary"
	"math"
	"time"
)

// An encoded key compares, byte by byte, as the key itself does. Each part starts with a marker that puts
// NULL first; strings end with an escaped terminator, so that no key is the start of another key of its
// table; a DESC part has all its bits turned. No part starts with 0xff, so key+afterKey sorts behind every
// key that starts with the parts of key, and before the next one.
const (
	markNull  = 0x01
	markValue = 0x02
	afterKey  = "\xff"
)

// appendKeyPart appends the encoding of one non-pending value.
func appendKeyPart(dst []byte, value any, desc bool) []byte {
	start := len(dst)
	if value == nil {
		dst = append(dst, markNull)
	} else {
		dst = appendOrdered(append(dst, markValue), value)
	}
	if desc {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

func appendOrdered(dst []byte, value any) []byte {
	switch v := value.(type) {
	case bool:
		return append(dst, byte(boolRank(v)))
	case int64:
		return appendOrderedInt(dst, v)
	case float64:
		return binary.BigEndian.AppendUint64(dst, orderedFloat(v))
	case string:
		return appendTerminated(dst, v)
	case []byte:
		return appendTerminated(dst, string(v))
	case time.Time:
		dst = appendOrderedInt(dst, v.Unix())
		return binary.BigEndian.AppendUint32(dst, uint32(v.Nanosecond())) // 0 to 999,999,999
	default:
		return dst
	}
}

func appendOrderedInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^(1<<63)) // the bits, not the number
}

// orderedFloat maps floats to integers of the same order, NaN lowest.
func orderedFloat(f float64) uint64 {
	if math.IsNaN(f) {
		return 0
	}
	bits := math.Float64bits(canonicalFloat(f))
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

func appendTerminated(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] == 0 {
			dst = append(dst, 0, 0xff)
			continue
		}
		dst = append(dst, s[i])
	}
	return append(dst, 0, 0x01)
}

// Span is a run of encoded keys: From <= key < To.
type Span struct{ From, To string }

// All is the span of every key.
func All() Span { return Span{From: "", To: afterKey} }

// PrefixSpan is the span of the keys that start with the given encoded parts.
func PrefixSpan(prefix string) Span { return Span{From: prefix, To: prefix + afterKey} }

// Empty reports whether no key lies in the span.
func (s Span) Empty() bool { return s.From >= s.To }

// Intersect returns the keys that both spans hold.
func (s Span) Intersect(o Span) Span {
	return Span{From: max(s.From, o.From), To: min(s.To, o.To)}
}

// Hull returns the smallest span that holds both.
func (s Span) Hull(o Span) Span {
	if s.Empty() {
		return o
	}
	if o.Empty() {
		return s
	}
	return Span{From: min(s.From, o.From), To: max(s.To, o.To)}
}

// AppendKey appends an encoding of the value that sorts as the value does, NULL and NaN first.
func AppendKey(dst []byte, value any) []byte { return appendKeyPart(dst, value, false) }
