package parse

import (
	"cloud.google.com/go/spanner/spansql"
)

// Query is a SELECT statement over one table or none.
type Query struct {
	Distinct bool
	List     []Item
	Table    spansql.ID // empty without a FROM
	Alias    spansql.ID // of the table; empty where there is none
	Where    spansql.Expr
	GroupBy  []spansql.Expr
	Having   spansql.Expr
	Order    []spansql.Order
	Limit    spansql.LiteralOrParam
	Offset   spansql.LiteralOrParam
}

// Item is one entry of a SELECT list.
type Item struct {
	Expr  spansql.Expr
	Alias spansql.ID // empty where there is none
	// Star stands for all columns. Of is then the name before the dot, empty without one.
	Star bool
	Of   spansql.ID
}

// Select parses a SELECT statement.
func Select(sql string) (*Query, error) {
	p, err := newParser(sql)
	if err != nil {
		return nil, err
	}
	if p.peek().is("(") {
		return nil, Unimplemented("a statement in parentheses")
	}
	if err := p.refuse("WITH", "FROM", "GRAPH", "CALL", "INSERT", "UPDATE", "DELETE", "CREATE", "@{", "SHOW", "EXPLAIN"); err != nil {
		return nil, err
	}
	if err := p.expect("SELECT"); err != nil {
		return nil, err
	}
	q := &Query{}
	if err := p.query(q); err != nil {
		return nil, err
	}
	return q, p.finish()
}

// finish demands the end of the statement.
func (p *parser) finish() error {
	p.eat(";")
	if p.peek().kind == end {
		return nil
	}
	return p.unexpected("")
}

func (p *parser) query(q *Query) error {
	if err := p.list(q); err != nil {
		return err
	}
	if p.eat("FROM") {
		if err := p.from(q); err != nil {
			return err
		}
	}
	var err error
	if p.eat("WHERE") {
		if q.Where, err = p.expr(); err != nil {
			return err
		}
	}
	if p.eat("GROUP", "BY") {
		if err := p.refuse("ALL", "ROLLUP", "CUBE", "GROUPING"); err != nil {
			return err
		}
		if q.GroupBy, err = p.exprs(); err != nil {
			return err
		}
	}
	if p.eat("HAVING") {
		if q.Having, err = p.expr(); err != nil {
			return err
		}
	}
	if err := p.refuse("QUALIFY", "WINDOW", "UNION", "INTERSECT", "EXCEPT"); err != nil {
		return err
	}
	return p.tail(q)
}

// tail reads what follows the body: ORDER BY, LIMIT, OFFSET.
func (p *parser) tail(q *Query) error {
	if p.eat("ORDER", "BY") {
		for {
			order, err := p.order()
			if err != nil {
				return err
			}
			q.Order = append(q.Order, order)
			if !p.eat(",") {
				break
			}
		}
	}
	var err error
	if p.eat("LIMIT") {
		if q.Limit, err = p.count(); err != nil {
			return err
		}
		if p.eat("OFFSET") {
			if q.Offset, err = p.count(); err != nil {
				return err
			}
		}
	}
	return p.refuse("FOR", "UNION", "INTERSECT", "EXCEPT")
}

func (p *parser) order() (spansql.Order, error) {
	by, err := p.expr()
	if err != nil {
		return spansql.Order{}, err
	}
	order := spansql.Order{Expr: by}
	if err := p.refuse("COLLATE"); err != nil {
		return spansql.Order{}, err
	}
	if p.eat("DESC") {
		order.Desc = true
	} else {
		p.eat("ASC")
	}
	return order, p.refuse("NULLS")
}

// count reads the value of LIMIT or OFFSET.
func (p *parser) count() (spansql.LiteralOrParam, error) {
	t := p.peek()
	switch t.kind {
	case integer:
		p.advance()
		n, err := p.integer(t, "")
		return n, err
	case param:
		p.advance()
		return spansql.Param(t.value), nil
	default:
		return nil, p.unexpected("expected an integer or a parameter")
	}
}

func (p *parser) list(q *Query) error {
	if p.eat("AS", "STRUCT") || p.eat("AS", "VALUE") {
		return Unimplemented("SELECT AS")
	}
	if p.eat("DISTINCT") {
		q.Distinct = true
	} else {
		p.eat("ALL")
	}
	for {
		item, err := p.item()
		if err != nil {
			return err
		}
		q.List = append(q.List, item)
		if !p.eat(",") {
			return nil
		}
		if p.peek().is("FROM") {
			return nil // a comma may stand behind the last item
		}
	}
}

func (p *parser) item() (Item, error) {
	if p.eat("*") {
		return Item{Star: true}, p.refuse("EXCEPT", "REPLACE")
	}
	if p.peekAt(1).is(".") && p.peekAt(2).is("*") {
		of, err := p.identifier()
		if err != nil {
			return Item{}, err
		}
		p.eat(".", "*")
		return Item{Star: true, Of: of}, p.refuse("EXCEPT", "REPLACE")
	}
	e, err := p.expr()
	if err != nil {
		return Item{}, err
	}
	alias, err := p.alias()
	return Item{Expr: e, Alias: alias}, err
}

// from reads the one table.
func (p *parser) from(q *Query) error {
	switch {
	case p.peek().is("("):
		return Unimplemented("a subquery in FROM")
	case p.peek().is("UNNEST"):
		return Unimplemented("UNNEST in FROM")
	}
	var err error
	if q.Table, q.Alias, err = p.table(); err != nil {
		return err
	}
	if p.peek().is(",") {
		return Unimplemented("a join")
	}
	return p.refuse("TABLESAMPLE", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "HASH", "LATERAL", "WITH", "PIVOT", "UNPIVOT", "MATCH_RECOGNIZE")
}

// table reads the name of a table, with dots in it for one of another schema, and its alias.
func (p *parser) table() (name, alias spansql.ID, err error) {
	if name, err = p.identifier(); err != nil {
		return "", "", err
	}
	for p.eat(".") {
		part, err := p.identifier()
		if err != nil {
			return "", "", err
		}
		name += "." + part
	}
	if p.peek().is("(") {
		return "", "", Unimplemented("a table function")
	}
	if err := p.refuse("@{", "PIVOT", "UNPIVOT", "QUALIFY"); err != nil {
		return "", "", err
	}
	if alias, err = p.alias(); err != nil {
		return "", "", err
	}
	return name, alias, p.refuse("@{")
}
