package query

import (
	"strings"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

var (
	oneText = []rows.Kind{rows.String}
	twoText = []rows.Kind{rows.String, rows.String}
)

// functions are those of plain values, by name.
var functions = map[string][]signature{
	"LOWER":            {{args: oneText, result: rows.String, apply: total(func(a []any) any { return strings.ToLower(a[0].(string)) })}},
	"UPPER":            {{args: oneText, result: rows.String, apply: total(func(a []any) any { return strings.ToUpper(a[0].(string)) })}},
	"LENGTH":           {characters, octets},
	"CHAR_LENGTH":      {characters},
	"CHARACTER_LENGTH": {characters},
	"BYTE_LENGTH":      {{args: oneText, result: rows.Int64, apply: total(func(a []any) any { return int64(len(a[0].(string))) })}, octets},
	"STARTS_WITH":      {{args: twoText, result: rows.Bool, apply: total(func(a []any) any { return strings.HasPrefix(a[0].(string), a[1].(string)) })}},
	"ENDS_WITH":        {{args: twoText, result: rows.Bool, apply: total(func(a []any) any { return strings.HasSuffix(a[0].(string), a[1].(string)) })}},
	"TRIM":             {{args: twoText, optional: 1, result: rows.String, apply: trimmed(strings.TrimFunc)}},
	"LTRIM":            {{args: twoText, optional: 1, result: rows.String, apply: trimmed(strings.TrimLeftFunc)}},
	"RTRIM":            {{args: twoText, optional: 1, result: rows.String, apply: trimmed(strings.TrimRightFunc)}},
	"REPLACE":          {{args: []rows.Kind{rows.String, rows.String, rows.String}, result: rows.String, apply: total(replaced)}},
	"STRPOS":           {{args: twoText, result: rows.Int64, apply: total(position)}},
	"SUBSTR":           {{args: []rows.Kind{rows.String, rows.Int64, rows.Int64}, optional: 1, result: rows.String, apply: substring}},
	"REGEXP_CONTAINS":  {{args: twoText, result: rows.Bool, apply: matches}},

	"ABS":         {{args: oneInt, result: rows.Int64, apply: absolute}, {args: oneFloat, result: rows.Float64, apply: absolute}},
	"MOD":         {{args: twoInts, result: rows.Int64, apply: remainder}},
	"DIV":         {{args: twoInts, result: rows.Int64, apply: quotient}},
	"SAFE_DIVIDE": {{args: []rows.Kind{rows.Float64, rows.Float64}, result: rows.Float64, apply: safeDivision}},
	"ROUND":       {{args: []rows.Kind{rows.Float64, rows.Int64}, optional: 1, result: rows.Float64, apply: rounded}},
	"FLOOR":       {{args: oneFloat, result: rows.Float64, apply: floored}},
	"CEIL":        {{args: oneFloat, result: rows.Float64, apply: ceiled}},
	"CEILING":     {{args: oneFloat, result: rows.Float64, apply: ceiled}},
	"TRUNC":       {{args: oneFloat, result: rows.Float64, apply: cut}},

	"UNIX_SECONDS":      {{args: oneMoment, result: rows.Int64, apply: total(func(a []any) any { return moment(a).Unix() })}},
	"UNIX_MILLIS":       {{args: oneMoment, result: rows.Int64, apply: total(func(a []any) any { return moment(a).UnixMilli() })}},
	"UNIX_MICROS":       {{args: oneMoment, result: rows.Int64, apply: total(func(a []any) any { return moment(a).UnixMicro() })}},
	"TIMESTAMP_SECONDS": {{args: oneInt, result: rows.Timestamp, apply: momentAfter(1)}},
	"TIMESTAMP_MILLIS":  {{args: oneInt, result: rows.Timestamp, apply: momentAfter(1e3)}},
	"TIMESTAMP_MICROS":  {{args: oneInt, result: rows.Timestamp, apply: momentAfter(1e6)}},
}

var (
	characters = signature{args: oneText, result: rows.Int64, apply: total(func(a []any) any { return int64(utf8.RuneCountInString(a[0].(string))) })}
	octets     = signature{args: []rows.Kind{rows.Bytes}, result: rows.Int64, apply: total(func(a []any) any { return int64(len(a[0].([]byte))) })}
)
