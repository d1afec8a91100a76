package parse

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// stringPrefix returns the letters before the quote of a string literal: r, b, both or none.
func stringPrefix(s string) (prefix string, ok bool) {
	for i := range min(len(s), 3) {
		switch s[i] {
		case '\'', '"':
			return s[:i], true
		case 'r', 'R', 'b', 'B':
			if i == 1 && strings.EqualFold(s[:1], s[1:2]) {
				return "", false // rr and bb are words
			}
		default:
			return "", false
		}
	}
	return "", false
}

// quoted reads a string, bytes or word in quotes that starts after the prefix.
func (l *lexer) quoted(prefix string) (token, error) {
	t := token{kind: text, at: l.at}
	raw := strings.ContainsAny(prefix, "rR")
	body := l.sql[l.at+len(prefix):]
	quote := body[:1]
	switch {
	case quote == "`":
		t.kind = quotedWord
	case strings.ContainsAny(prefix, "bB"):
		t.kind = blob
	}
	if t.kind != quotedWord && strings.HasPrefix(body, strings.Repeat(quote, 3)) {
		quote = body[:3]
	}
	var content strings.Builder
	for i := len(quote); i < len(body); {
		switch {
		case strings.HasPrefix(body[i:], quote):
			l.at += len(prefix) + i + len(quote)
			t.value = content.String()
			return t, l.checkQuoted(t)
		case body[i] == '\\' && i+1 < len(body):
			n := l.escape(&content, body[i:], t.kind, raw)
			if n == 0 {
				return token{}, l.fail(l.at+len(prefix)+i, "Illegal escape sequence")
			}
			i += n
		case (body[i] == '\n' || body[i] == '\r') && len(quote) == 1:
			return token{}, l.fail(t.at, "Unclosed string literal")
		default:
			content.WriteByte(body[i])
			i++
		}
	}
	return token{}, l.fail(t.at, "Unclosed string literal")
}

func (l *lexer) checkQuoted(t token) error {
	switch {
	case t.kind == quotedWord && t.value == "":
		return l.fail(t.at, "Invalid empty identifier")
	case t.kind == text && !utf8.ValidString(t.value):
		return l.fail(t.at, "Structurally invalid UTF8 string")
	default:
		return nil
	}
}

var simpleEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
	'\\': '\\', '?': '?', '"': '"', '\'': '\'', '`': '`',
}

// escape writes what an escape sequence stands for and returns its length, 0 if it is not one. In a STRING a
// number names a code point, in BYTES a byte.
func (l *lexer) escape(content *strings.Builder, s string, k kind, raw bool) int {
	if raw {
		content.WriteString(s[:2])
		return 2
	}
	if c, ok := simpleEscapes[s[1]]; ok {
		content.WriteByte(c)
		return 2
	}
	n, base := 0, 16
	switch {
	case s[1] == 'x' || s[1] == 'X':
		n = 4
	case s[1] == 'u' && k != blob:
		n = 6
	case s[1] == 'U' && k != blob:
		n = 10
	case '0' <= s[1] && s[1] <= '3':
		n, base = 4, 8
	}
	if n == 0 || len(s) < n {
		return 0
	}
	digits := s[2:n]
	if base == 8 {
		digits = s[1:n]
	}
	code, err := strconv.ParseUint(digits, base, 32)
	switch {
	case err != nil:
		return 0
	case k == blob:
		content.WriteByte(byte(code)) // two hexadecimal or three octal digits
	case !utf8.ValidRune(rune(code)):
		return 0
	default:
		content.WriteRune(rune(code))
	}
	return n
}
