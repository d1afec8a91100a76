package query

import (
	"strings"
	"time"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// env is what an expression sees: a row, or a group of rows.
type env struct {
	row        []any // by column of the table
	keys       []any // of the group, by GROUP BY expression
	aggregates []any // of the group
}

// expr is a compiled expression. NULL is nil.
type expr struct {
	kind  rows.Kind // 0: NULL, which is of every type
	array bool
	// constant means that eval needs no env.
	constant bool
	// literal is a string literal, which stands for a TIMESTAMP where one is needed.
	literal bool
	// open is a text parameter without a type: it takes on the type it is compared with.
	open bool
	eval func(*env) (any, error)
}

func constant(kind rows.Kind, value any) *expr {
	return &expr{kind: kind, constant: true, eval: func(*env) (any, error) { return value, nil }}
}

func (x *expr) typeName() string {
	switch {
	case x.kind == 0:
		return "NULL"
	case x.array:
		return "ARRAY<" + x.kind.String() + ">"
	default:
		return x.kind.String()
	}
}

// folded evaluates a constant once and for all. Its error, if it has one, shows where the value is needed.
func folded(x *expr) *expr {
	if !x.constant {
		return x
	}
	value, err := x.eval(nil)
	held := *x
	held.eval = func(*env) (any, error) { return value, err }
	return &held
}

// shared lets several expressions use the value of one that is evaluated once: with set, then through the
// expression that is returned.
func shared(x *expr) (held *expr, set func(*env) error) {
	if x.constant {
		return x, func(*env) error { return nil }
	}
	var value any
	held = &expr{kind: x.kind, array: x.array, eval: func(*env) (any, error) { return value, nil }}
	return held, func(e *env) error {
		var err error
		value, err = x.eval(e)
		return err
	}
}

// expr compiles an expression.
func (c *compiler) expr(e spansql.Expr) (*expr, error) {
	x, err := c.unfolded(e)
	if err != nil {
		return nil, err
	}
	return folded(x), nil
}

func (c *compiler) unfolded(e spansql.Expr) (*expr, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, errTooDeep()
	}
	defer func() { c.depth-- }()
	if c.grouping != nil {
		if x := c.groupKey(e); x != nil {
			return x, nil
		}
	}
	switch e := e.(type) {
	case spansql.Paren:
		return c.expr(e.Expr)
	case spansql.ID:
		return c.named(string(e))
	case spansql.PathExp:
		return c.path(e)
	case spansql.Param:
		param, ok := c.params[strings.ToLower(string(e))]
		if !ok {
			return nil, invalid("No value given for the query parameter @%s.", string(e))
		}
		return c.param(param), nil
	case spansql.ComparisonOp:
		return c.comparison(e)
	case spansql.LogicalOp:
		return c.logical(e)
	case spansql.InOp:
		return c.in(e)
	case spansql.IsOp:
		return c.is(e)
	case spansql.ArithOp:
		return c.arith(e)
	case spansql.Func:
		return c.function(e)
	case spansql.Case:
		return c.caseExpr(e)
	case spansql.NullIf:
		return c.nullIf(e)
	case spansql.Coalesce:
		return c.coalesce(e.ExprList)
	case spansql.IfNull:
		return c.coalesce([]spansql.Expr{e.Expr, e.NullResult})
	case spansql.If:
		return c.caseExpr(spansql.Case{WhenClauses: []spansql.WhenClause{{Cond: e.Expr, Result: e.TrueResult}}, ElseResult: e.ElseResult})
	default:
		return literal(e)
	}
}

// literal compiles a constant, or names what it cannot compile.
func literal(e spansql.Expr) (*expr, error) {
	switch e := e.(type) {
	case spansql.NullLiteral:
		return constant(0, nil), nil
	case spansql.BoolLiteral:
		return constant(rows.Bool, bool(e)), nil
	case spansql.IntegerLiteral:
		return constant(rows.Int64, int64(e)), nil
	case spansql.FloatLiteral:
		return constant(rows.Float64, float64(e)), nil
	case spansql.StringLiteral:
		x := constant(rows.String, string(e))
		x.literal = true
		return x, nil
	case spansql.BytesLiteral:
		return constant(rows.Bytes, []byte(e)), nil
	case spansql.TimestampLiteral:
		return constant(rows.Timestamp, time.Time(e).UTC()), nil
	default:
		return nil, unimplemented("the expression " + e.SQL())
	}
}

// named compiles a name without a dot: a column or, where they may stand, an alias.
func (c *compiler) named(name string) (*expr, error) {
	if c.byAlias {
		if item := c.aliased(name); item != nil {
			c.byAlias = false // an entry of the list sees columns only
			defer func() { c.byAlias = true }()
			return c.expr(item)
		}
	}
	return c.column(name)
}

func (c *compiler) path(e spansql.PathExp) (*expr, error) {
	if len(e) == 2 && c.table != nil && equalFold(string(e[0]), c.alias) {
		return c.column(string(e[1]))
	}
	return nil, invalid("Unrecognized name: %s", e.SQL())
}

func (c *compiler) column(name string) (*expr, error) {
	if c.table == nil {
		return nil, invalid("Unrecognized name: %s", name)
	}
	i, err := c.table.Column(name)
	if err != nil {
		return nil, invalid("Unrecognized name: %s", name)
	}
	if c.grouping != nil {
		return nil, invalid("SELECT list expression references column %s which is neither grouped nor aggregated", name)
	}
	return &expr{kind: c.table.Columns[i].Kind, eval: func(e *env) (any, error) { return e.row[i], nil }}, nil
}

func (c *compiler) param(p Param) *expr {
	x := constant(p.Kind, p.Value)
	x.array = p.Array
	if p.Kind == 0 {
		switch p.Value.(type) {
		case bool:
			x.kind = rows.Bool
		case float64:
			x.kind = rows.Float64
		case string:
			x.kind, x.open = rows.String, true
		}
	}
	return x
}
