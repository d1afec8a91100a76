package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// toText turns a stored value to JSON.
type toText = func(dst []byte, v parquet.Value) ([]byte, error)

// textOf picks what the schema's element says, in its new words or the old.
func textOf(e format.SchemaElement) (toText, error) {
	if !e.Type.Valid {
		return nil, errors.New("the schema gives it no type")
	}
	switch logical := e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType:
		return stringText, nil
	case *format.JsonType:
		return jsonText, nil
	case *format.DecimalType:
		return decimalText(e.Type.V, int(logical.Scale))
	case *format.DateType:
		return dateText, nil
	case *format.TimeType:
		return timeText(unitOf(logical.Unit)), nil
	case *format.TimestampType:
		return timestampText(unitOf(logical.Unit), logical.IsAdjustedToUTC), nil
	case *format.IntType:
		return intText(e.Type.V, logical.IsSigned), nil
	case *format.NullType:
		return nullText, nil
	case *format.UUIDType:
		return uuidText, nil
	case *format.Float16Type:
		return float16Text, nil
	}
	if e.ConvertedType.Valid {
		switch e.ConvertedType.V {
		case deprecated.UTF8, deprecated.Enum:
			return stringText, nil
		case deprecated.Json:
			return jsonText, nil
		case deprecated.Decimal:
			return decimalText(e.Type.V, int(e.Scale.V))
		case deprecated.Date:
			return dateText, nil
		case deprecated.TimeMillis:
			return timeText(time.Millisecond), nil
		case deprecated.TimeMicros:
			return timeText(time.Microsecond), nil
		case deprecated.TimestampMillis:
			return timestampText(time.Millisecond, true), nil
		case deprecated.TimestampMicros:
			return timestampText(time.Microsecond, true), nil
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return intText(e.Type.V, false), nil
		}
	}
	return storedText(e.Type.V)
}

// storedText goes by the type in which values are stored.
func storedText(t format.Type) (toText, error) {
	switch t {
	case format.Boolean:
		return func(dst []byte, v parquet.Value) ([]byte, error) { return strconv.AppendBool(dst, v.Boolean()), nil }, nil
	case format.Int32, format.Int64:
		return intText(t, true), nil
	case format.Int96:
		return int96Text, nil
	case format.Float:
		return func(dst []byte, v parquet.Value) ([]byte, error) { return appendFloat(dst, float64(v.Float()), 32) }, nil
	case format.Double:
		return func(dst []byte, v parquet.Value) ([]byte, error) { return appendFloat(dst, v.Double(), 64) }, nil
	case format.ByteArray, format.FixedLenByteArray:
		return base64Text, nil
	}
	return nil, fmt.Errorf("type %d is not known", t)
}

func unitOf(unit format.TimeUnit) time.Duration {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	}
	return time.Nanosecond
}

func nullText(dst []byte, _ parquet.Value) ([]byte, error) { return append(dst, "null"...), nil }

func stringText(dst []byte, v parquet.Value) ([]byte, error) {
	text := v.ByteArray()
	if err := checkText(text); err != nil {
		return dst, err
	}
	return appendJSON(dst, text), nil
}

// jsonText puts the document itself, on one line.
func jsonText(dst []byte, v parquet.Value) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	if err := json.Compact(out, v.ByteArray()); err != nil {
		return dst, fmt.Errorf("the value is not JSON: %w", err)
	}
	if err := checkText(out.Bytes()[len(dst):]); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}

func base64Text(dst []byte, v parquet.Value) ([]byte, error) {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v.ByteArray())
	return append(dst, '"'), nil
}

func uuidText(dst []byte, v parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 16 {
		return dst, fmt.Errorf("a UUID of %d bytes", len(b))
	}
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		dst = append(dst, `"----`[i])
		dst = hex.AppendEncode(dst, part)
	}
	return append(dst, '"'), nil
}

func intText(t format.Type, signed bool) toText {
	return func(dst []byte, v parquet.Value) ([]byte, error) {
		switch {
		case t == format.Int32 && signed:
			return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
		case t == format.Int32:
			return strconv.AppendUint(dst, uint64(v.Uint32()), 10), nil
		case signed:
			return strconv.AppendInt(dst, v.Int64(), 10), nil
		}
		return strconv.AppendUint(dst, v.Uint64(), 10), nil
	}
}

// appendFloat writes the shortest text that reads back the same. NaN is what
// tables hold where a number is missing, and JSON says null for that; nothing
// says infinity.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	switch abs := math.Abs(f); {
	case math.IsNaN(f):
		return append(dst, "null"...), nil
	case math.IsInf(f, 0):
		return dst, errors.New("the value is infinite, which JSON cannot hold")
	case abs != 0 && (abs < 1e-6 || abs >= 1e21):
		return strconv.AppendFloat(dst, f, 'e', -1, bits), nil
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
}

func float16Text(dst []byte, v parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 2 {
		return dst, fmt.Errorf("a half float of %d bytes", len(b))
	}
	bits := binary.LittleEndian.Uint16(b)
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 0x1f:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(fraction+1024, exponent-25)
	}
	if bits&0x8000 != 0 {
		f = math.Copysign(f, -1)
	}
	return appendFloat(dst, f, 32)
}

// decimalText writes all digits after the point, zeros too.
func decimalText(t format.Type, scale int) (toText, error) {
	if scale < 0 || scale > 1000 {
		return nil, fmt.Errorf("a decimal of scale %d", scale)
	}
	switch t {
	case format.Int32:
		return func(dst []byte, v parquet.Value) ([]byte, error) {
			return appendDecimal(dst, strconv.FormatInt(int64(v.Int32()), 10), scale), nil
		}, nil
	case format.Int64:
		return func(dst []byte, v parquet.Value) ([]byte, error) {
			return appendDecimal(dst, strconv.FormatInt(v.Int64(), 10), scale), nil
		}, nil
	case format.ByteArray, format.FixedLenByteArray:
		return func(dst []byte, v parquet.Value) ([]byte, error) {
			return appendDecimal(dst, twosComplement(v.ByteArray()).String(), scale), nil
		}, nil
	}
	return nil, fmt.Errorf("a decimal stored as type %d", t)
}

// twosComplement reads a signed number of any size, the highest byte first.
func twosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b)*8)))
	}
	return n
}

func appendDecimal(dst []byte, digits string, scale int) []byte {
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale == 0 {
		return append(dst, digits...)
	}
	point := len(digits) - scale
	if point <= 0 {
		dst = append(dst, "0."...)
		for range -point {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
}

const secondsOfDay = 24 * 60 * 60

func dateText(dst []byte, v parquet.Value) ([]byte, error) {
	day := time.Unix(int64(v.Int32())*secondsOfDay, 0).UTC()
	return append(day.AppendFormat(append(dst, '"'), "2006-01-02"), '"'), nil
}

// fractions are the digits of each unit: what was measured in milliseconds has
// three, zeros too.
var fractions = map[time.Duration]string{
	time.Millisecond: ".000", time.Microsecond: ".000000", time.Nanosecond: ".000000000",
}

func timeText(unit time.Duration) toText {
	layout := "15:04:05" + fractions[unit]
	return func(dst []byte, v parquet.Value) ([]byte, error) {
		count := v.Int64()
		if unit == time.Millisecond { // the only one that is stored in 32 bits
			count = int64(v.Int32())
		}
		if count < 0 || count > int64(24*time.Hour/unit) {
			return dst, fmt.Errorf("%d is no time of a day", count)
		}
		return append(instant(count, unit).AppendFormat(append(dst, '"'), layout), '"'), nil
	}
}

// timestampText writes RFC 3339. A timestamp that is not in UTC is the local
// time of nobody knows where, and has no zone.
func timestampText(unit time.Duration, utc bool) toText {
	layout := "2006-01-02T15:04:05" + fractions[unit]
	if utc {
		layout += "Z"
	}
	return func(dst []byte, v parquet.Value) ([]byte, error) {
		return append(instant(v.Int64(), unit).AppendFormat(append(dst, '"'), layout), '"'), nil
	}
}

// instant does not go by way of nanoseconds, which end in 2262.
func instant(count int64, unit time.Duration) time.Time {
	each := int64(time.Second / unit)
	seconds, rest := count/each, count%each
	return time.Unix(seconds, rest*int64(unit)).UTC()
}

// julianEpoch is the Julian day of 1970-01-01.
const julianEpoch = 2440588

// int96Text reads the timestamps of Impala and of older Spark: nanoseconds of a
// day, and the Julian day.
func int96Text(dst []byte, v parquet.Value) ([]byte, error) {
	raw := v.Int96()
	nanos := int64(uint64(raw[1])<<32 | uint64(raw[0]))
	at := time.Unix((int64(raw[2])-julianEpoch)*secondsOfDay, nanos).UTC()
	return append(at.AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000000000Z"), '"'), nil
}
