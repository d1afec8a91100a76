package query

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

var castTargets = map[spansql.TypeBase]rows.Kind{
	spansql.Bool: rows.Bool, spansql.Int64: rows.Int64, spansql.Float64: rows.Float64,
	spansql.String: rows.String, spansql.Bytes: rows.Bytes, spansql.Timestamp: rows.Timestamp,
}

// cast compiles CAST and SAFE_CAST; the latter makes NULL of what does not fit.
func (c *compiler) cast(call spansql.Func, safe bool) (*expr, error) {
	if len(call.Args) != 1 {
		return nil, invalid("CAST takes one argument.")
	}
	typed, ok := call.Args[0].(spansql.TypedExpr)
	if !ok {
		return nil, invalid("CAST needs a type.")
	}
	kind, ok := castTargets[typed.Type.Base]
	if !ok || typed.Type.Array {
		return nil, unimplemented("a cast to " + typed.Type.SQL())
	}
	x, err := c.expr(typed.Expr)
	if err != nil {
		return nil, err
	}
	if x.kind == rows.Timestamp && kind == rows.String {
		return nil, unimplemented("a cast from TIMESTAMP to STRING")
	}
	if x.array || !castable(x.kind, kind) {
		return nil, invalid("Invalid cast from %s to %s.", x.typeName(), kind)
	}
	return x.mapped(kind, func(value any) (any, error) {
		converted, ok := castValue(kind, value)
		switch {
		case ok:
			return converted, nil
		case safe:
			return nil, nil
		}
		return nil, status.Errorf(codes.OutOfRange, "Bad value for a cast to %s: %v", kind, value)
	}), nil
}

func castable(from, to rows.Kind) bool {
	switch {
	case from == 0, from == to, from == rows.String, to == rows.String:
		return true
	case from == rows.Int64:
		return to == rows.Float64 || to == rows.Bool
	case from == rows.Float64, from == rows.Bool:
		return to == rows.Int64
	default:
		return false
	}
}

// castValue returns false for a value that does not fit.
func castValue(kind rows.Kind, value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return parseText(kind, v)
	case []byte:
		if kind == rows.String {
			return string(v), utf8.Valid(v)
		}
	case int64:
		switch kind {
		case rows.String:
			return strconv.FormatInt(v, 10), true
		case rows.Float64:
			return float64(v), true
		case rows.Bool:
			return v != 0, true
		}
	case float64:
		switch kind {
		case rows.String:
			return formatFloat(v), true
		case rows.Int64:
			if r := math.Round(v); r >= math.MinInt64 && r < math.MaxInt64 {
				return int64(r), true
			}
			return nil, false
		}
	case bool:
		switch kind {
		case rows.String:
			return strconv.FormatBool(v), true
		case rows.Int64:
			return map[bool]int64{true: 1}[v], true
		}
	}
	return value, true // the kind it already has
}

// formatFloat writes 15 digits, or 17 where the number needs them to be read back.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	text := strconv.FormatFloat(f, 'g', 15, 64)
	if back, err := strconv.ParseFloat(text, 64); err != nil || back != f {
		text = strconv.FormatFloat(f, 'g', 17, 64)
	}
	return text
}
