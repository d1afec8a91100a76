package parse

import (
	"fmt"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxStatement is the service's limit for the text of a statement, in characters.
	maxStatement = 1_000_000
	// maxNesting bounds the brackets, CASEs and NOTs inside each other: the parser calls itself for each, and no
	// recover could save the process from a stack that overflows.
	maxNesting = 1000
	// maxOperators bounds the operators of a statement, which can lie deep in each other without any brackets. The
	// service takes 1,000 ANDs and ORs, and as many calls.
	maxOperators = 3000
)

// parser reads one statement.
type parser struct {
	sql       string
	tokens    []token
	next      int // index of the token that comes next
	nesting   int
	operators int
}

func newParser(sql string) (*parser, error) {
	if len(sql) > maxStatement {
		return nil, status.Errorf(codes.InvalidArgument, "Statement length of %d exceeds maximum allowed length of %d.", len(sql), maxStatement)
	}
	list, err := tokens(sql)
	if err != nil {
		return nil, err
	}
	return &parser{sql: sql, tokens: list}, nil
}

// Unimplemented is the error for what GoogleSQL has and localcloud has not.
func Unimplemented(construct string) error {
	return status.Errorf(codes.Unimplemented, "localcloud does not support %s in a query.", construct)
}

func (l *lexer) fail(at int, format string, args ...any) error {
	return failAt(l.sql, at, format, args...)
}

// failAt is a syntax error with its place.
func failAt(sql string, at int, format string, args ...any) error {
	before := sql[:min(at, len(sql))]
	line := strings.Count(before, "\n") + 1
	column := at - strings.LastIndexByte(before, '\n')
	return status.Errorf(codes.InvalidArgument, "Syntax error: %s [at %d:%d]", fmt.Sprintf(format, args...), line, column)
}

func (p *parser) peek() token { return p.tokens[p.next] }

// peekAt looks n tokens further than the next.
func (p *parser) peekAt(n int) token { return p.tokens[min(p.next+n, len(p.tokens)-1)] }

// advance takes the next token.
func (p *parser) advance() token {
	t := p.tokens[p.next]
	p.next = min(p.next+1, len(p.tokens)-1)
	return t
}

// eat takes the words if they come next, all or none.
func (p *parser) eat(words ...string) bool {
	for i, w := range words {
		if !p.peekAt(i).is(w) {
			return false
		}
	}
	p.next += len(words)
	return true
}

func (p *parser) expect(w string) error {
	if p.eat(w) {
		return nil
	}
	return p.unexpected("expected " + w)
}

// unexpected is the error for the next token.
func (p *parser) unexpected(hint string) error {
	if hint != "" {
		hint = ": " + hint
	}
	return failAt(p.sql, p.peek().at, "Unexpected %s%s", p.peek().show(), hint)
}

// refuse names the construct if the next token is one of the words.
func (p *parser) refuse(words ...string) error {
	for _, w := range words {
		if p.peek().is(w) {
			return Unimplemented(w)
		}
	}
	return nil
}

// deeper counts one level more; each call needs a call of the returned function.
func (p *parser) deeper() (func(), error) {
	p.nesting++
	if p.nesting > maxNesting {
		return nil, tooDeep()
	}
	return func() { p.nesting-- }, nil
}

// operator counts an operator.
func (p *parser) operator() error {
	if p.operators++; p.operators > maxOperators {
		return tooDeep()
	}
	return nil
}

func tooDeep() error { return status.Error(codes.InvalidArgument, "Statement is too deeply nested.") }

// identifier takes a name that is no reserved word.
func (p *parser) identifier() (spansql.ID, error) {
	t := p.peek()
	if t.kind == quotedWord || t.kind == word && !spansql.IsKeyword(t.value) {
		p.advance()
		return spansql.ID(t.value), nil
	}
	return "", p.unexpected("expected an identifier")
}

// alias takes a name with or without AS, or nothing.
func (p *parser) alias() (spansql.ID, error) {
	if p.eat("AS") {
		return p.identifier()
	}
	if t := p.peek(); t.kind == quotedWord || t.kind == word && !spansql.IsKeyword(t.value) {
		return p.identifier()
	}
	return "", nil
}
