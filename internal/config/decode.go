package config

import (
	"encoding/json"
	"errors"
	"fmt"
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

// decodeHook turns what YAML and variables hold into the types of Config.
func decodeHook() mapstructure.DecodeHookFunc {
	return func(from, to reflect.Type, data any) (any, error) {
		text, isText := data.(string)
		switch {
		case to == reflect.TypeFor[time.Duration]():
			return decodeDuration(data)
		case to == reflect.TypeFor[Bytes]() && isText:
			return ParseBytes(text)
		case to.Kind() == reflect.Slice && isText:
			return decodeList(text, to.Elem())
		case to.Kind() == reflect.String && from.Kind() != reflect.String:
			return nil, fmt.Errorf("%v is not a text; put it in quotes", data)
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
	// "0" is the one duration that Go reads without a unit.
	if err != nil || text == "0" {
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit, such as 30s, 500ms or 1h", text)
	}
	return d, nil
}

// decodeList reads a list from a variable or flag: a JSON array, or values
// separated by commas.
func decodeList(text string, elem reflect.Type) (any, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return reflect.MakeSlice(reflect.SliceOf(elem), 0, 0).Interface(), nil
	}
	if strings.HasPrefix(text, "[") {
		list := reflect.New(reflect.SliceOf(elem))
		if err := json.Unmarshal([]byte(text), list.Interface()); err != nil {
			return nil, fmt.Errorf("%q is not a JSON array of that type: %w", text, err)
		}
		return list.Elem().Interface(), nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts, nil
}

// decodeProblems says for each value that could not be decoded which key it
// was written for, and where.
func decodeProblems(err error, sources map[string]Source) error {
	var joined interface{ Unwrap() []error }
	list := []error{err}
	for errors.As(list[0], &joined) && len(list) == 1 {
		list = joined.Unwrap()
		joined = nil
	}
	problems := make([]error, 0, len(list))
	for _, e := range list {
		text := strings.Join(strings.Fields(e.Error()), " ")
		key := ""
		if _, rest, found := strings.Cut(text, "'"); found {
			key, _, _ = strings.Cut(rest, "'")
		}
		source, known := sources[strings.ToLower(key)]
		if !known {
			problems = append(problems, errors.New(text))
			continue
		}
		var decode *mapstructure.DecodeError
		if errors.As(e, &decode) {
			text = strings.Join(strings.Fields(decode.Unwrap().Error()), " ")
		}
		problems = append(problems, fmt.Errorf("%s (from %s): %s", key, source, text))
	}
	return errors.Join(problems...)
}
