package query

import (
	"strconv"
	"strings"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

// to converts the expression to the kind where SQL does so by itself: INT64 to FLOAT64, NULL to anything, a
// string literal to a TIMESTAMP, and an open string to what its text says.
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
	case x.open, x.literal && kind == rows.Timestamp:
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
		return parseInt(strings.TrimSpace(text))
	case rows.Float64:
		return parseFloat(strings.TrimSpace(text))
	case rows.Timestamp:
		moment, ok := parse.Timestamp(text)
		return moment, ok
	default:
		return nil, false
	}
}

// parseInt reads decimal and hexadecimal digits; a leading zero has no meaning.
func parseInt(text string) (any, bool) {
	digits, base := strings.TrimLeft(text, "+-"), 10
	sign := text[:len(text)-len(digits)]
	if len(sign) > 1 || digits == "" {
		return nil, false
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		digits, base = rest, 16
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	return n, err == nil
}

// parseFloat reads decimal digits, inf and nan.
func parseFloat(text string) (any, bool) {
	if strings.ContainsAny(text, "xX_") {
		return nil, false // Go has forms of its own
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// common brings expressions to one kind, so that their values can be compared.
func common(what string, xs ...*expr) ([]*expr, rows.Kind, error) {
	kind := rows.Kind(0)
	for _, x := range xs {
		switch {
		case x.array:
			return nil, 0, invalid("No matching signature for %s with %s.", what, x.typeName())
		case x.kind == 0 || x.open || x.literal:
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
