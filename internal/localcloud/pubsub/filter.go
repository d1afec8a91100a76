package pubsub

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxFilter is the service's limit on the text of a filter, in bytes. It also
// bounds how deep the parser below can recurse.
const maxFilter = 256

// predicate says whether a message with these attributes passes a filter.
type predicate func(attributes map[string]string) bool

// parseFilter reads the service's filter language:
//
//	expression = term { "AND" term } | term { "OR" term }
//	term       = [ "NOT" | "-" ] ( test | "(" expression ")" )
//	test       = "attributes" ":" key
//	           | "attributes" "." key ( "=" | "!=" ) string
//	           | "hasPrefix" "(" "attributes" "." key "," string ")"
//
// As in the service, AND and OR do not mix without parentheses, operators are
// written in capitals, and != also passes messages without the attribute. An
// empty text stands for no filter; then the predicate is nil.
func parseFilter(text string) (predicate, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no filter is no error
	}
	if len(text) > maxFilter {
		return nil, invalid("filter has %d bytes, the maximum is %d", len(text), maxFilter)
	}
	p := &filterParser{rest: text}
	pass, err := p.expression()
	if err == nil && p.skipSpace() != "" {
		err = p.want("AND, OR or the end")
	}
	if err != nil {
		return nil, invalid("filter %q: at byte %d: %v", text, len(text)-len(p.rest), err)
	}
	return pass, nil
}

// filterParser consumes the text of a filter from the front.
type filterParser struct{ rest string }

func (p *filterParser) expression() (predicate, error) {
	left, err := p.term()
	if err != nil {
		return nil, err
	}
	for joined := ""; ; {
		word := p.word()
		if word != "AND" && word != "OR" {
			return left, nil
		}
		if joined != "" && joined != word {
			return nil, fmt.Errorf("AND and OR do not mix: put parentheses around one of them")
		}
		joined = word
		p.rest = p.rest[len(word):]
		right, err := p.term()
		if err != nil {
			return nil, err
		}
		left = join(left, right, word == "AND")
	}
}

func join(a, b predicate, both bool) predicate {
	if both {
		return func(m map[string]string) bool { return a(m) && b(m) }
	}
	return func(m map[string]string) bool { return a(m) || b(m) }
}

func (p *filterParser) term() (predicate, error) {
	negated := p.accept("-")
	if !negated && p.word() == "NOT" {
		p.rest = p.rest[len("NOT"):]
		negated = true
	}
	pass, err := p.simple()
	if err != nil || !negated {
		return pass, err
	}
	return func(m map[string]string) bool { return !pass(m) }, nil
}

func (p *filterParser) simple() (predicate, error) {
	if p.accept("(") {
		pass, err := p.expression()
		if err == nil && !p.accept(")") {
			err = p.want(`")"`)
		}
		return pass, err
	}
	switch word := p.word(); word {
	case "attributes":
		p.rest = p.rest[len(word):]
		return p.test()
	case "hasPrefix":
		p.rest = p.rest[len(word):]
		return p.prefix()
	}
	return nil, p.want(`"attributes", "hasPrefix", "NOT" or "("`)
}

// test reads what follows "attributes".
func (p *filterParser) test() (predicate, error) {
	if p.accept(":") {
		key, err := p.key()
		return func(m map[string]string) bool { _, ok := m[key]; return ok }, err
	}
	if !p.accept(".") {
		return nil, p.want(`":" or "."`)
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	differs := p.accept("!=")
	if !differs && !p.accept("=") {
		return nil, p.want(`"=" or "!="`)
	}
	value, err := p.text()
	return func(m map[string]string) bool {
		v, ok := m[key]
		return (ok && v == value) != differs
	}, err
}

// prefix reads what follows "hasPrefix".
func (p *filterParser) prefix() (predicate, error) {
	if !p.accept("(") {
		return nil, p.want(`"("`)
	}
	if p.word() != "attributes" {
		return nil, p.want(`"attributes"`)
	}
	p.rest = p.rest[len("attributes"):]
	if !p.accept(".") {
		return nil, p.want(`"."`)
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	if !p.accept(",") {
		return nil, p.want(`","`)
	}
	value, err := p.text()
	if err == nil && !p.accept(")") {
		err = p.want(`")"`)
	}
	return func(m map[string]string) bool {
		v, ok := m[key]
		return ok && strings.HasPrefix(v, value)
	}, err
}

// key reads the name of an attribute; one with unusual characters is quoted.
func (p *filterParser) key() (string, error) {
	if strings.HasPrefix(p.skipSpace(), `"`) {
		return p.text()
	}
	key := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, letters+"-"))]
	if key == "" {
		return "", p.want("the key of an attribute")
	}
	p.rest = p.rest[len(key):]
	return key, nil
}

// text reads a quoted string.
func (p *filterParser) text() (string, error) {
	if !p.accept(`"`) {
		return "", p.want("a string in double quotes")
	}
	var out []byte
	for p.rest != "" {
		if p.accepts(`"`) {
			return string(out), nil
		}
		r, multibyte, rest, err := strconv.UnquoteChar(p.rest, '"')
		if err != nil {
			return "", fmt.Errorf("malformed escape sequence in a string")
		}
		p.rest = rest
		if multibyte {
			out = utf8.AppendRune(out, r)
		} else {
			out = append(out, byte(r)) // \x and octal escapes are bytes
		}
	}
	return "", fmt.Errorf("a string has no end")
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// word returns the word that comes next without consuming it.
func (p *filterParser) word() string {
	rest := p.skipSpace()
	return rest[:len(rest)-len(strings.TrimLeft(rest, letters))]
}

// accept consumes a sign, and the space before it, if it comes next.
func (p *filterParser) accept(sign string) bool {
	p.skipSpace()
	return p.accepts(sign)
}

func (p *filterParser) accepts(sign string) bool {
	rest, ok := strings.CutPrefix(p.rest, sign)
	p.rest = rest
	return ok
}

func (p *filterParser) skipSpace() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest
}

// want says what was expected where the parser stands.
func (p *filterParser) want(what string) error {
	if p.skipSpace() == "" {
		return fmt.Errorf("want %s, got the end", what)
	}
	return fmt.Errorf("want %s, got %.20q", what, p.rest)
}
