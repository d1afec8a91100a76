package parse

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind tells tokens apart.
type kind uint8

const (
	end kind = iota
	word
	quotedWord
	integer
	float
	text
	blob
	param
	symbol
)

// token is one word of a statement.
type token struct {
	kind  kind
	value string // a word as written, the content of a string or quoted word, the name of a parameter
	at    int    // byte offset in the statement
}

// is reports whether the token is the keyword or symbol; keywords are given in upper case.
func (t token) is(want string) bool {
	return t.kind == symbol && t.value == want || t.kind == word && strings.EqualFold(t.value, want)
}

// show names the token in an error.
func (t token) show() string {
	switch t.kind {
	case end:
		return "end of statement"
	case text, blob:
		return "string literal"
	case param:
		return "@" + t.value
	default:
		return strconv.Quote(t.value)
	}
}

// symbols of two characters come before those of one.
var symbols = []string{
	"<=", ">=", "!=", "<>", "||", "<<", ">>", "=>", "@{", "@@",
	"(", ")", "[", "]", "{", "}", ",", ".", ";", "*", "/", "+", "-", "~", "&", "^", "|", "<", ">", "=", ":", "?",
}

// lexer cuts a statement into tokens.
type lexer struct {
	sql string
	at  int
}

// tokens returns all tokens of the statement, with end as the last one.
func tokens(sql string) ([]token, error) {
	l := &lexer{sql: sql}
	list := make([]token, 0, len(sql)/4+1)
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		list = append(list, t)
		if t.kind == end {
			return list, nil
		}
	}
}

func (l *lexer) next() (token, error) {
	if err := l.skipSpace(); err != nil {
		return token{}, err
	}
	rest := l.sql[l.at:]
	if rest == "" {
		return token{kind: end, at: l.at}, nil
	}
	if prefix, ok := stringPrefix(rest); ok {
		return l.quoted(prefix)
	}
	c := rest[0]
	switch {
	case c == '`':
		return l.quoted("")
	case isLetter(c):
		return l.take(word, wordEnd(rest)), nil
	case c == '@' && len(rest) > 1 && isLetter(rest[1]):
		t := l.take(param, 1+wordEnd(rest[1:]))
		t.value = t.value[1:]
		return t, nil
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return l.number(rest)
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			return l.take(symbol, len(s)), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return token{}, l.fail(l.at, "Illegal input character %q", r)
}

// take makes a token of the next n bytes.
func (l *lexer) take(k kind, n int) token {
	t := token{kind: k, value: l.sql[l.at : l.at+n], at: l.at}
	l.at += n
	return t
}

// skipSpace passes over white space and comments.
func (l *lexer) skipSpace() error {
	for l.at < len(l.sql) {
		rest := l.sql[l.at:]
		switch {
		case strings.IndexByte(" \t\n\r\f\v\b", rest[0]) >= 0:
			l.at++
		case rest[0] == '#', strings.HasPrefix(rest, "--"):
			if i := strings.IndexAny(rest, "\n\r"); i >= 0 {
				l.at += i
			} else {
				l.at = len(l.sql)
			}
		case strings.HasPrefix(rest, "/*"):
			i := strings.Index(rest[2:], "*/")
			if i < 0 {
				return l.fail(l.at, "Unclosed comment")
			}
			l.at += i + 4
		default:
			return nil
		}
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

// wordEnd returns the length of the word that s starts with.
func wordEnd(s string) int {
	i := 0
	for i < len(s) && (isLetter(s[i]) || isDigit(s[i])) {
		i++
	}
	return i
}

// number reads an integer, decimal or hexadecimal, or a floating point number.
func (l *lexer) number(rest string) (token, error) {
	k, n := integer, 0
	digits := func(is func(byte) bool) {
		for n < len(rest) && is(rest[n]) {
			n++
		}
	}
	if strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0X") {
		n = 2
		digits(isHex)
		if n == 2 {
			return token{}, l.fail(l.at, "Invalid hexadecimal integer literal")
		}
	} else {
		digits(isDigit)
		if n < len(rest) && rest[n] == '.' {
			k, n = float, n+1
			digits(isDigit)
		}
		if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			mantissa := n
			k, n = float, n+1
			if n < len(rest) && (rest[n] == '+' || rest[n] == '-') {
				n++
			}
			if n == len(rest) || !isDigit(rest[n]) {
				return token{}, l.fail(l.at+mantissa, "Invalid floating point literal")
			}
			digits(isDigit)
		}
	}
	if n < len(rest) && isLetter(rest[n]) {
		return token{}, l.fail(l.at+n, "Missing whitespace between literal and alias")
	}
	return l.take(k, n), nil
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
