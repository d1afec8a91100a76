package parse

import (
	"strconv"
	"strings"

	"cloud.google.com/go/spanner/spansql"
)

// primary reads an operand.
func (p *parser) primary() (spansql.Expr, error) {
	e, err := p.operand()
	if err != nil {
		return nil, err
	}
	if p.peek().is("[") {
		return nil, Unimplemented("a subscript")
	}
	return e, nil
}

func (p *parser) operand() (spansql.Expr, error) {
	t := p.peek()
	switch t.kind {
	case integer:
		p.advance()
		n, err := p.integer(t, "")
		return n, err
	case float:
		p.advance()
		f, err := strconv.ParseFloat(t.value, 64)
		if err != nil {
			return nil, failAt(p.sql, t.at, "Invalid floating point literal: %s", t.value)
		}
		return spansql.FloatLiteral(f), nil
	case text:
		p.advance()
		return spansql.StringLiteral(t.value), nil
	case blob:
		p.advance()
		return spansql.BytesLiteral(t.value), nil
	case param:
		p.advance()
		return spansql.Param(t.value), nil
	case symbol:
		return p.bracket()
	case quotedWord:
		return p.path()
	case word:
		return p.word(t)
	default:
		return nil, p.unexpected("expected an expression")
	}
}

// integer reads the digits of an INT64, decimal or hexadecimal.
func (p *parser) integer(t token, sign string) (spansql.IntegerLiteral, error) {
	digits, base := t.value, 10
	if len(digits) > 1 && (digits[1] == 'x' || digits[1] == 'X') {
		digits, base = digits[2:], 16
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	if err != nil {
		return 0, failAt(p.sql, t.at, "Invalid integer literal: %s%s", sign, t.value)
	}
	return spansql.IntegerLiteral(n), nil
}

// bracket reads an expression in parentheses or an array.
func (p *parser) bracket() (spansql.Expr, error) {
	switch {
	case p.eat("("):
		if p.peek().is("SELECT") || p.peek().is("WITH") {
			return nil, Unimplemented("a subquery")
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		if p.peek().is(",") {
			return nil, Unimplemented("a STRUCT")
		}
		return spansql.Paren{Expr: e}, p.expect(")")
	case p.peek().is("["):
		return p.array()
	case p.peek().is("?"):
		return nil, Unimplemented("a positional parameter")
	case p.peek().is("@@"):
		return nil, Unimplemented("a system variable")
	default:
		return nil, p.unexpected("expected an expression")
	}
}

func (p *parser) array() (spansql.Expr, error) {
	if err := p.expect("["); err != nil {
		return nil, err
	}
	if p.eat("]") {
		return spansql.Array{}, nil
	}
	list, err := p.exprs()
	if err != nil {
		return nil, err
	}
	return spansql.Array(list), p.expect("]")
}

// word reads what starts with a word: a constant, a special form, a call or a name.
func (p *parser) word(t token) (spansql.Expr, error) {
	upper := strings.ToUpper(t.value)
	switch upper {
	case "NULL":
		p.advance()
		return spansql.Null, nil
	case "TRUE", "FALSE":
		p.advance()
		return spansql.BoolLiteral(upper == "TRUE"), nil
	case "CASE":
		return p.caseOf()
	case "CAST", "SAFE_CAST":
		if p.peekAt(1).is("(") {
			return p.cast(upper)
		}
	case "IF":
		if p.peekAt(1).is("(") {
			return p.ifOf()
		}
	case "ARRAY":
		p.advance()
		if p.peek().is("[") {
			return p.array()
		}
		return nil, Unimplemented("ARRAY with a type or a subquery")
	case "EXISTS", "EXTRACT", "STRUCT", "NEW", "INTERVAL":
		return nil, Unimplemented(upper)
	case "TIMESTAMP":
		if s := p.peekAt(1); s.kind == text {
			p.advance()
			p.advance()
			return timestampLiteral(s, p.sql)
		}
	case "DATE", "NUMERIC", "JSON":
		if p.peekAt(1).kind == text {
			return nil, Unimplemented("a " + upper + " literal")
		}
	}
	if p.peekAt(1).is("(") && (!spansql.IsKeyword(upper)) {
		return p.call(upper)
	}
	return p.path()
}

// timestampLiteral reads TIMESTAMP '...'.
func timestampLiteral(t token, sql string) (spansql.Expr, error) {
	moment, ok := Timestamp(t.value)
	if !ok {
		return nil, failAt(sql, t.at, "Invalid TIMESTAMP literal")
	}
	return spansql.TimestampLiteral(moment), nil
}

// path reads a name, or names with dots in between.
func (p *parser) path() (spansql.Expr, error) {
	first, err := p.identifier()
	if err != nil {
		return nil, err
	}
	names := spansql.PathExp{first}
	for p.eat(".") {
		t := p.peek()
		if t.kind != word && t.kind != quotedWord { // behind a dot a reserved word is a name
			return nil, p.unexpected("expected a name")
		}
		p.advance()
		names = append(names, spansql.ID(t.value))
	}
	if p.peek().is("(") {
		return nil, Unimplemented("the function " + names.SQL())
	}
	if len(names) == 1 {
		return first, nil
	}
	return names, nil
}

func (p *parser) caseOf() (spansql.Expr, error) {
	p.advance()
	var c spansql.Case
	var err error
	if !p.peek().is("WHEN") {
		if c.Expr, err = p.expr(); err != nil {
			return nil, err
		}
	}
	for p.eat("WHEN") {
		var when spansql.WhenClause
		if when.Cond, err = p.expr(); err != nil {
			return nil, err
		}
		if err := p.expect("THEN"); err != nil {
			return nil, err
		}
		if when.Result, err = p.expr(); err != nil {
			return nil, err
		}
		c.WhenClauses = append(c.WhenClauses, when)
	}
	if len(c.WhenClauses) == 0 {
		return nil, p.unexpected("expected WHEN")
	}
	if p.eat("ELSE") {
		if c.ElseResult, err = p.expr(); err != nil {
			return nil, err
		}
	}
	return c, p.expect("END")
}

func (p *parser) ifOf() (spansql.Expr, error) {
	p.advance()
	args, err := p.plainArguments("IF")
	if err != nil {
		return nil, err
	}
	if len(args) != 3 {
		return nil, p.unexpected("IF takes three arguments")
	}
	return spansql.If{Expr: asBool(args[0]), TrueResult: args[1], ElseResult: args[2]}, nil
}
