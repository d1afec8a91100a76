package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
)

// Bytes is a size. It is written as a number of bytes, or with one of the
// units KiB, MiB, GiB, KB, MB, GB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"B", 1},
}

// ParseBytes reads a size such as 256MiB.
func ParseBytes(s string) (Bytes, error) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if rest, found := strings.CutSuffix(number, u.suffix); found {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q is not a size; write a whole number with KiB, MiB or GiB, such as 256MiB", s)
	}
	return Bytes(n * unit), nil
}

// String writes the size with the largest binary unit that divides it.
func (b Bytes) String() string {
	for i := 2; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// decodeHook turns what YAML, variables and flags hold into the types of
// Config. It converts nothing that would change: 1.5 is no whole number, 1 is
// no bool, and a number is no text, since YAML reads 007 and 1e3 as numbers.
func decodeHook() mapstructure.DecodeHookFunc {
	return func(from, to reflect.Type, data any) (any, error) {
		if to.Kind() == reflect.Slice {
			return decodeList(from, to, data)
		}
		if from.Kind() == reflect.Slice {
			return nil, fmt.Errorf("%v is a list; write one value", data)
		}
		switch to {
		case reflect.TypeFor[time.Duration]():
			return decodeDuration(data)
		case reflect.TypeFor[Bytes]():
			return ParseBytes(wholeText(data))
		}
		switch to.Kind() {
		case reflect.String:
			if from.Kind() != reflect.String {
				return nil, fmt.Errorf("%v is not a text; put it in quotes", data)
			}
		case reflect.Int:
			return decodeInt(data)
		case reflect.Float64:
			return decodeFloat(data)
		case reflect.Bool:
			return decodeBool(data)
		}
		return data, nil
	}
}

func decodeDuration(data any) (time.Duration, error) {
	if d, is := data.(time.Duration); is {
		return d, nil
	}
	text := strings.TrimSpace(fmt.Sprint(data))
	d, err := time.ParseDuration(text)
	// 0 is the one number that Go reads as a duration without a unit.
	if err != nil || !strings.ContainsAny(text, "hmsnu") {
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit, such as 30s, 500ms or 1h", text)
	}
	return d, nil
}

func decodeInt(data any) (int, error) {
	text := strings.TrimSpace(wholeText(data))
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

// wholeText writes a number as text, also one such as 5e+07: tools that pass
// YAML through JSON write large whole numbers so.
func wholeText(data any) string {
	if x, is := data.(float64); is && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.FormatInt(int64(x), 10)
	}
	return fmt.Sprint(data)
}

func decodeFloat(data any) (float64, error) {
	text := strings.TrimSpace(fmt.Sprint(data))
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return x, nil
}

func decodeBool(data any) (bool, error) {
	switch text := strings.TrimSpace(fmt.Sprint(data)); text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
}

// decodeList reads a list. From a variable or flag it is a JSON array, or
// values separated by commas. A single number stands for a list of itself.
func decodeList(from, to reflect.Type, data any) (any, error) {
	switch from.Kind() {
	case reflect.Slice:
		return data, nil
	case reflect.Map:
		return nil, errors.New("is a map of keys; write a list")
	case reflect.String:
	default:
		return []any{data}, nil
	}
	text := strings.TrimSpace(fmt.Sprint(data))
	if text == "" {
		return reflect.MakeSlice(to, 0, 0).Interface(), nil
	}
	if strings.HasPrefix(text, "[") {
		var list []any
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("%q starts as a JSON array but is none: %w", text, err)
		}
		return list, nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts, nil
}

// decodeProblems says for each value that could not be decoded which key it
// was written for, and where.
func decodeProblems(err error, where map[string]string) error {
	// The tree of errors is walked to its leaves: errors.As would stop at the
	// first of them.
	switch e := err.(type) { //nolint:errorlint // see above
	case *mapstructure.DecodeError:
		key, _, _ := strings.Cut(e.Name(), "[") // an element of a list is KEY[0]
		return fmt.Errorf("%s: %s: %w", where[key], e.Name(), oneLine(e.Unwrap()))
	case interface{ Unwrap() []error }:
		var problems []error
		for _, each := range e.Unwrap() {
			problems = append(problems, decodeProblems(each, where))
		}
		return errors.Join(problems...)
	case interface{ Unwrap() error }:
		return decodeProblems(e.Unwrap(), where)
	}
	return oneLine(err)
}
