package parse

import (
	"cloud.google.com/go/spanner/spansql"
)

// Change is an INSERT, UPDATE or DELETE statement.
type Change struct {
	Verb  Verb
	Table spansql.ID
	Alias spansql.ID // empty where there is none

	Columns []spansql.ID     // of an INSERT or UPDATE
	Rows    [][]spansql.Expr // of an INSERT; of an UPDATE one row of what is SET
	Where   spansql.Expr     // of an UPDATE or DELETE
}

// Verb is what a Change does.
type Verb uint8

// The verbs. InsertOrUpdate is INSERT OR UPDATE.
const (
	Insert Verb = iota + 1
	InsertOrUpdate
	Update
	Delete
)

// IsChange reports whether the statement starts as an INSERT, UPDATE or DELETE.
func IsChange(sql string) bool {
	l := &lexer{sql: sql}
	first, err := l.next()
	return err == nil && (first.is("INSERT") || first.is("UPDATE") || first.is("DELETE"))
}

// DML parses an INSERT, UPDATE or DELETE statement.
func DML(sql string) (*Change, error) {
	p, err := newParser(sql)
	if err != nil {
		return nil, err
	}
	change := &Change{}
	switch {
	case p.eat("INSERT"):
		err = p.insert(change)
	case p.eat("UPDATE"):
		err = p.update(change)
	case p.eat("DELETE"):
		p.eat("FROM")
		if change.Table, change.Alias, err = p.table(); err == nil {
			change.Verb = Delete
			change.Where, err = p.where()
		}
	default:
		err = p.unexpected("expected INSERT, UPDATE or DELETE")
	}
	if err != nil {
		return nil, err
	}
	if p.peek().is("THEN") {
		return nil, Unimplemented("THEN RETURN")
	}
	return change, p.finish()
}

// where reads the condition, without which there is no UPDATE and no DELETE.
func (p *parser) where() (spansql.Expr, error) {
	if err := p.expect("WHERE"); err != nil {
		return nil, err
	}
	return p.expr()
}

func (p *parser) insert(change *Change) error {
	change.Verb = Insert
	switch {
	case p.eat("OR", "UPDATE"):
		change.Verb = InsertOrUpdate
	case p.peek().is("OR"):
		return Unimplemented("INSERT OR IGNORE")
	}
	p.eat("INTO")
	var err error
	if change.Table, err = p.identifier(); err != nil {
		return err
	}
	if err := p.expect("("); err != nil {
		return err
	}
	for {
		column, err := p.identifier()
		if err != nil {
			return err
		}
		change.Columns = append(change.Columns, column)
		if !p.eat(",") {
			break
		}
	}
	if err := p.expect(")"); err != nil {
		return err
	}
	if p.peek().is("SELECT") || p.peek().is("(") || p.peek().is("WITH") {
		return Unimplemented("INSERT of a query")
	}
	if err := p.expect("VALUES"); err != nil {
		return err
	}
	for {
		if err := p.expect("("); err != nil {
			return err
		}
		row, err := p.values()
		if err != nil {
			return err
		}
		if len(row) != len(change.Columns) {
			return p.unexpected("a row has not as many values as there are columns")
		}
		change.Rows = append(change.Rows, row)
		if !p.eat(",") {
			return nil
		}
	}
}

// values reads the values of a row up to its closing parenthesis.
func (p *parser) values() ([]spansql.Expr, error) {
	if p.peek().is("DEFAULT") {
		return nil, Unimplemented("DEFAULT")
	}
	var row []spansql.Expr
	for {
		if p.peek().is("DEFAULT") {
			return nil, Unimplemented("DEFAULT")
		}
		value, err := p.expr()
		if err != nil {
			return nil, err
		}
		row = append(row, value)
		if !p.eat(",") {
			return row, p.expect(")")
		}
	}
}

func (p *parser) update(change *Change) error {
	change.Verb = Update
	var err error
	if change.Table, change.Alias, err = p.table(); err != nil {
		return err
	}
	if err := p.expect("SET"); err != nil {
		return err
	}
	var values []spansql.Expr
	for {
		column, err := p.assigned(change)
		if err != nil {
			return err
		}
		if err := p.expect("="); err != nil {
			return err
		}
		if p.peek().is("DEFAULT") {
			return Unimplemented("DEFAULT")
		}
		value, err := p.expr()
		if err != nil {
			return err
		}
		change.Columns, values = append(change.Columns, column), append(values, value)
		if !p.eat(",") {
			break
		}
	}
	change.Rows = [][]spansql.Expr{values}
	change.Where, err = p.where()
	return err
}

// assigned reads the column on the left side of a SET, which may stand behind the name of its table.
func (p *parser) assigned(change *Change) (spansql.ID, error) {
	column, err := p.identifier()
	if err != nil || !p.peek().is(".") {
		return column, err
	}
	if column != change.Alias && (change.Alias != "" || column != change.Table) {
		return "", p.unexpected("the name before it is not that of the table")
	}
	p.advance()
	return p.identifier()
}
