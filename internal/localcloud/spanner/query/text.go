package query

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// trimmed takes white space, or the characters of a second argument, off the ends.
func trimmed(trim func(string, func(rune) bool) string) func([]any) (any, error) {
	return total(func(args []any) any {
		if len(args) == 1 {
			return trim(args[0].(string), unicode.IsSpace)
		}
		set := args[1].(string)
		return trim(args[0].(string), func(r rune) bool { return strings.ContainsRune(set, r) })
	})
}

func replaced(args []any) any {
	s, from, to := args[0].(string), args[1].(string), args[2].(string)
	if from == "" {
		return s
	}
	return strings.ReplaceAll(s, from, to)
}

// position counts characters from 1; 0 means that the text is not there.
func position(args []any) any {
	s := args[0].(string)
	at := strings.Index(s, args[1].(string))
	if at < 0 {
		return int64(0)
	}
	return int64(utf8.RuneCountInString(s[:at])) + 1
}

// substring takes characters from a position that counts from 1, or from the end if it is negative.
func substring(args []any) (any, error) {
	runes := []rune(args[0].(string))
	n := int64(len(runes))
	start, length := args[1].(int64), n
	if len(args) == 3 {
		length = args[2].(int64)
	}
	if length < 0 {
		return nil, status.Error(codes.OutOfRange, "Third argument in SUBSTR() cannot be negative")
	}
	switch {
	case start > n:
		return "", nil
	case start > 0:
		start--
	case start < 0 && start >= -n:
		start += n
	default:
		start = 0
	}
	return string(runes[start : start+min(length, n-start)]), nil
}

// matches looks for a regular expression anywhere in the text.
func matches(args []any) (any, error) {
	re, err := regexp.Compile(args[1].(string))
	if err != nil {
		return nil, status.Errorf(codes.OutOfRange, "Cannot parse regular expression: %v", err)
	}
	return re.MatchString(args[0].(string)), nil
}
