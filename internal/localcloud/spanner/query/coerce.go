package query

import (
	"strconv"
	"strings"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

// to converts the expression to the kind where SQL does so by itself: INT64 to FLOAT64, NULL to anything, and
// an open string to what its text says.
func (x *expr) to(kind rows.Kind) (*expr, error) {
	switch {
	case x.array:
		return nil, invalid("Cannot coerce %s to %s.", x.typeName(), kind)
	case x.kind == kind:
		return x, nil
	case x.kind == 0:
		null := *x
		null.kind = kind
		return &null, nil
	case x.kind == rows.Int64 && kind == rows.Float64:
		return x.mapped(kind, func(value any) (any, error) { return float64(value.(int64)), nil }), nil
	case x.open:
		text, err := x.eval(nil)
		if err != nil {
			return nil, err
		}
		value, ok := parseText(kind, text.(string))
		if !ok {
			return nil, invalid("Could not cast %q to type %s.", text, kind)
		}
		return constant(kind, value), nil
	default:
		return nil, invalid("Cannot coerce %s to %s.", x.typeName(), kind)
	}
}

// mapped applies a function to the values that are not NULL.
func (x *expr) mapped(kind rows.Kind, apply func(any) (any, error)) *expr {
	return &expr{kind: kind, constant: x.constant, eval: func(e *env) (any, error) {
		value, err := x.eval(e)
		if err != nil || value == nil {
			return nil, err
		}
		return apply(value)
	}}
}

// parseText reads the text of a value, as CAST does.
func parseText(kind rows.Kind, text string) (any, bool) {
	switch kind {
	case rows.String:
		return text, true
	case rows.Bytes:
		return []byte(text), true
	case rows.Bool:
		switch strings.ToLower(text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		return nil, false
	case rows.Int64:
		n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
		return n, err == nil
	case rows.Float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return f, err == nil
	case rows.Timestamp:
		return parseTimestamp(text)
	default:
		return nil, false
	}
}

// parseTimestamp takes the forms that name their zone. The service's default zone for the rest is Los
// Angeles; rather than guess, they are refused.
func parseTimestamp(text string) (any, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return nil, false
}

// common brings expressions to one kind, so that their values can be compared.
func common(what string, xs ...*expr) ([]*expr, rows.Kind, error) {
	kind := rows.Kind(0)
	for _, x := range xs {
		switch {
		case x.array:
			return nil, 0, invalid("No matching signature for %s with %s.", what, x.typeName())
		case x.kind == 0 || x.open:
		case kind == 0, kind == rows.Int64 && x.kind == rows.Float64:
			kind = x.kind
		}
	}
	for _, x := range xs {
		if kind == 0 {
			kind = x.kind // only open strings and NULLs
		}
	}
	if kind == 0 {
		kind = rows.Int64
	}
	converted := make([]*expr, len(xs))
	for i, x := range xs {
		var err error
		if converted[i], err = x.to(kind); err != nil {
			return nil, 0, invalid("No matching signature for %s for argument types: %s.", what, typeNames(xs))
		}
	}
	return converted, kind, nil
}

func typeNames(xs []*expr) string {
	names := make([]string, len(xs))
	for i, x := range xs {
		names[i] = x.typeName()
	}
	return strings.Join(names, ", ")
}

// allConstant reports whether an expression over these needs no row.
func allConstant(xs ...*expr) bool {
	for _, x := range xs {
		if !x.constant {
			return false
		}
	}
	return true
}
