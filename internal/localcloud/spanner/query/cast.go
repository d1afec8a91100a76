package query

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

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
	if x.array || !castable(x.kind, kind) {
		return nil, invalid("Invalid cast from %s to %s.", x.typeName(), kind)
	}
	return x.mapped(kind, func(value any) (any, error) {
		converted, ok := castValue(kind, value)
		if ok || safe {
			return converted, nil
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

// castValue returns nil and false for a value that does not fit.
func castValue(kind rows.Kind, value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return parseText(kind, v)
	case []byte:
		if kind == rows.String {
			return string(v), true
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
			return strconv.FormatFloat(v, 'g', -1, 64), true
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
	case time.Time:
		if kind == rows.String {
			return v.Format(time.RFC3339Nano), true
		}
	}
	return value, true // the kind it already has
}

// jsonValue compiles JSON_VALUE(text [, path]): a scalar as text, NULL for anything else.
func jsonValue(args []*expr) (*expr, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, invalid("JSON_VALUE takes one or two arguments.")
	}
	path := []any(nil)
	if len(args) == 2 {
		if !args[1].constant || args[1].kind != rows.String {
			return nil, unimplemented("JSON_VALUE with a path that is not a constant")
		}
		value, err := args[1].eval(nil)
		if err != nil {
			return nil, err
		}
		text, _ := value.(string)
		if path, err = parsePath(text); err != nil {
			return nil, err
		}
	}
	if args[0].kind != rows.String && args[0].kind != 0 {
		return nil, unimplemented("JSON_VALUE of " + args[0].typeName())
	}
	return args[0].mapped(rows.String, func(value any) (any, error) { return walkJSON(value.(string), path), nil }), nil
}

// parsePath takes $, .name, ."name" and [n] apart.
func parsePath(text string) ([]any, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, status.Errorf(codes.OutOfRange, "Invalid JSONPath %q: it must start with $.", text)
	}
	var path []any
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, `."`):
			name, after, ok := strings.Cut(rest[2:], `"`)
			if !ok {
				return nil, status.Errorf(codes.OutOfRange, "Invalid JSONPath %q.", text)
			}
			path, rest = append(path, name), after
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return nil, status.Errorf(codes.OutOfRange, "Invalid JSONPath %q.", text)
			}
			path, rest = append(path, rest[1:1+end]), rest[1+end:]
		case rest[0] == '[':
			index, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(index)
			if !ok || err != nil || n < 0 {
				return nil, status.Errorf(codes.OutOfRange, "Invalid JSONPath %q.", text)
			}
			path, rest = append(path, n), after
		default:
			return nil, status.Errorf(codes.OutOfRange, "Invalid JSONPath %q.", text)
		}
	}
	return path, nil
}

func walkJSON(text string, path []any) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // numbers come out as they were written
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			array, _ := value.([]any)
			if step >= len(array) {
				return nil
			}
			value = array[step]
		}
	}
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	default:
		return nil
	}
}
