package rows

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// A stored row is one string with a tag and a payload for each column slot in turn. One pointer-free string a
// row keeps a million rows small and costs the garbage collector nothing to walk. Slots that are missing at
// the end are NULL: columns that were added after the row was written.
const (
	tagNull byte = iota
	tagFalse
	tagTrue
	tagInt64
	tagFloat64
	tagString
	tagBytes
	tagTimestamp
)

var errCorruptRow = errors.New("stored row is corrupt")

func encodeRow(row []any) string {
	size := 0
	for _, value := range row {
		size += 11
		switch v := value.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	dst := make([]byte, 0, size)
	for _, value := range row {
		dst = appendCell(dst, value)
	}
	return string(dst)
}

func appendCell(dst []byte, value any) []byte {
	switch v := value.(type) {
	case bool:
		if v {
			return append(dst, tagTrue)
		}
		return append(dst, tagFalse)
	case int64:
		return binary.AppendVarint(append(dst, tagInt64), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, tagFloat64), math.Float64bits(v))
	case string:
		dst = binary.AppendUvarint(append(dst, tagString), uint64(len(v)))
		return append(dst, v...)
	case []byte:
		dst = binary.AppendUvarint(append(dst, tagBytes), uint64(len(v)))
		return append(dst, v...)
	case time.Time:
		dst = binary.AppendVarint(append(dst, tagTimestamp), v.Unix())
		return binary.AppendVarint(dst, int64(v.Nanosecond()))
	default:
		return append(dst, tagNull)
	}
}

// decodeRow fills row, one value a slot. Strings share the memory of the stored row.
func decodeRow(stored string, row []any) error {
	clear(row)
	for slot := range row {
		if stored == "" {
			return nil
		}
		tag := stored[0]
		var err error
		if row[slot], stored, err = decodeCell(tag, stored[1:]); err != nil {
			return err
		}
	}
	return nil
}

func decodeCell(tag byte, rest string) (value any, after string, err error) {
	switch tag {
	case tagNull:
		return nil, rest, nil
	case tagFalse, tagTrue:
		return tag == tagTrue, rest, nil
	case tagInt64:
		n, rest, err := cutVarint(rest)
		return n, rest, err
	case tagFloat64:
		if len(rest) < 8 {
			return nil, "", errCorruptRow
		}
		return math.Float64frombits(binary.BigEndian.Uint64([]byte(rest[:8]))), rest[8:], nil
	case tagString:
		s, rest, err := cutString(rest)
		return s, rest, err
	case tagBytes:
		s, rest, err := cutString(rest)
		return []byte(s), rest, err
	case tagTimestamp:
		seconds, rest, err := cutVarint(rest)
		if err != nil {
			return nil, "", err
		}
		nanos, rest, err := cutVarint(rest)
		return time.Unix(seconds, nanos).UTC(), rest, err
	default:
		return nil, "", errCorruptRow
	}
}

func cutUvarint(s string) (uint64, string, error) {
	var n uint64
	for i := range min(len(s), binary.MaxVarintLen64) {
		n |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return n, s[i+1:], nil
		}
	}
	return 0, "", errCorruptRow
}

func cutVarint(s string) (int64, string, error) {
	u, rest, err := cutUvarint(s)
	n := int64(u >> 1) // zig-zag: the low bit is the sign
	if u&1 == 1 {
		n = ^n
	}
	return n, rest, err
}

func cutString(s string) (cut, rest string, err error) {
	n, s, err := cutUvarint(s)
	if err != nil || n > uint64(len(s)) {
		return "", "", errCorruptRow
	}
	return s[:n], s[n:], nil
}
