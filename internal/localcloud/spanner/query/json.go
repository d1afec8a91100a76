package query

import (
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

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
		text, ok := value.(string)
		if !ok {
			return constant(rows.String, nil), nil
		}
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

// walkJSON returns the scalar at the path as text, nil if there is none or the text is not JSON. Numbers come
// out as they were written, and of members with the same name the first one counts.
func walkJSON(text string, path []any) any {
	if !json.Valid([]byte(text)) {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for _, step := range path {
		if !enter(decoder, step) {
			return nil
		}
	}
	value, err := decoder.Token()
	if err != nil {
		return nil
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

// enter moves the decoder, which stands before a value, to before the member or element of it.
func enter(decoder *json.Decoder, step any) bool {
	open, err := decoder.Token()
	if err != nil {
		return false
	}
	index, isIndex := step.(int)
	switch {
	case open == json.Delim('[') && isIndex:
		for i := 0; decoder.More(); i++ {
			if i == index {
				return true
			}
			if !skip(decoder) {
				return false
			}
		}
	case open == json.Delim('{') && !isIndex:
		for decoder.More() {
			name, err := decoder.Token()
			if err != nil {
				return false
			}
			if name == step {
				return true
			}
			if !skip(decoder) {
				return false
			}
		}
	}
	return false
}

// skip passes over a value.
func skip(decoder *json.Decoder) bool {
	var passed json.RawMessage
	return decoder.Decode(&passed) == nil
}
