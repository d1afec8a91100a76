package query

import (
	"slices"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// These bound how far the ORs of a condition are looked into for key bounds.
const (
	maxAlternatives = 64
	maxOrDepth      = 3
	maxLooks        = 100_000 // at a condition, in all
)

// bounds is what the conditions say of one key column.
type bounds struct {
	equal     any // nil: no "="
	low, high any // nil: none
	lowOpen   bool
	highOpen  bool
}

// keySpan returns a span that holds every key for which all the conditions can be true. It may hold more:
// each row is still tested.
func (c *compiler) keySpan(conditions []spansql.Expr, depth int) rows.Span {
	var plain []spansql.Expr
	var ors []spansql.LogicalOp
	for _, condition := range conjuncts(conditions) {
		if op, ok := condition.(spansql.LogicalOp); ok && op.Op == spansql.Or {
			ors = append(ors, op)
			continue
		}
		plain = append(plain, condition)
	}
	span := c.plainSpan(plain)
	if c.looks += len(plain); depth >= maxOrDepth || c.looks > maxLooks {
		return span
	}
	for _, or := range ors {
		alternatives := disjuncts(or)
		if len(alternatives) > maxAlternatives {
			continue
		}
		hull := rows.Span{}
		for _, alternative := range alternatives {
			with := append([]spansql.Expr{alternative}, plain...)
			hull = hull.Hull(c.keySpan(with, depth+1))
		}
		span = span.Intersect(hull)
	}
	return span
}

// plainSpan uses equalities on the first key columns, and bounds on the one after them.
func (c *compiler) plainSpan(conditions []spansql.Expr) rows.Span {
	var prefix []any
	for _, part := range c.table.Key {
		b := c.boundsOf(part.Column, conditions)
		if b.equal != nil {
			prefix = append(prefix, b.equal)
			continue
		}
		span := rows.PrefixSpan(c.table.EncodePrefix(prefix))
		if part.Desc {
			return span
		}
		if b.low != nil {
			low := rows.PrefixSpan(c.table.EncodePrefix(append(slices.Clip(prefix), b.low)))
			span.From = low.From
			if b.lowOpen {
				span.From = low.To
			}
		}
		if b.high != nil {
			high := rows.PrefixSpan(c.table.EncodePrefix(append(slices.Clip(prefix), b.high)))
			span.To = high.To
			if b.highOpen {
				span.To = high.From
			}
		}
		return span
	}
	return rows.PrefixSpan(c.table.EncodePrefix(prefix))
}

// boundsOf gathers what the conditions say of the column.
func (c *compiler) boundsOf(column int, conditions []spansql.Expr) bounds {
	var b bounds
	for _, condition := range conditions {
		op, ok := condition.(spansql.ComparisonOp)
		if !ok {
			continue
		}
		if op.Op == spansql.Between {
			b.narrow(spansql.Ge, c.against(column, op.LHS, op.RHS))
			b.narrow(spansql.Le, c.against(column, op.LHS, op.RHS2))
			continue
		}
		if value := c.against(column, op.LHS, op.RHS); value != nil {
			b.narrow(op.Op, value)
		} else if value := c.against(column, op.RHS, op.LHS); value != nil {
			b.narrow(mirrored(op.Op), value)
		}
	}
	return b
}

// narrow takes in one comparison with a value; nil is none. The first bound of a side is kept: it is right,
// if not always the tightest.
func (b *bounds) narrow(op spansql.ComparisonOperator, value any) {
	if value == nil || isNaN(value) {
		return
	}
	switch {
	case op == spansql.Eq && b.equal == nil:
		b.equal = value
	case (op == spansql.Gt || op == spansql.Ge) && b.low == nil:
		b.low, b.lowOpen = value, op == spansql.Gt
	case (op == spansql.Lt || op == spansql.Le) && b.high == nil:
		b.high, b.highOpen = value, op == spansql.Lt
	}
}

func mirrored(op spansql.ComparisonOperator) spansql.ComparisonOperator {
	switch op {
	case spansql.Lt:
		return spansql.Gt
	case spansql.Le:
		return spansql.Ge
	case spansql.Gt:
		return spansql.Lt
	case spansql.Ge:
		return spansql.Le
	default:
		return op
	}
}

// against returns the constant that the column is compared with, as a value of the column's type, or nil.
func (c *compiler) against(column int, side, other spansql.Expr) any {
	if !c.isColumn(column, side) {
		return nil
	}
	x, err := c.expr(other)
	if err != nil || !x.constant {
		return nil
	}
	if x, err = x.to(c.table.Columns[column].Kind); err != nil {
		return nil
	}
	value, err := x.eval(nil)
	if err != nil {
		return nil
	}
	return value
}

func (c *compiler) isColumn(column int, e spansql.Expr) bool {
	i, ok := c.columnIndex(e)
	return ok && i == column
}

// columnIndex returns the column of the table that an expression names, if it does nothing else.
func (c *compiler) columnIndex(e spansql.Expr) (int, bool) {
	name := ""
	switch e := e.(type) {
	case spansql.Paren:
		return c.columnIndex(e.Expr)
	case spansql.ID:
		name = string(e)
	case spansql.PathExp:
		if len(e) == 2 && equalFold(string(e[0]), c.alias) {
			name = string(e[1])
		}
	}
	if name == "" || c.table == nil {
		return 0, false
	}
	i, err := c.table.Column(name)
	return i, err == nil
}

// keyOrder reports whether a scan gives the rows in the wanted order by itself: the ORDER BY walks the key
// columns, and may leave out those that the condition holds to one value.
func (c *compiler) keyOrder(where spansql.Expr, order []spansql.Order) bool {
	if c.table == nil {
		return false
	}
	var conditions []spansql.Expr
	if where != nil {
		conditions = conjuncts([]spansql.Expr{where})
	}
	for _, part := range c.table.Key {
		if len(order) == 0 {
			return true
		}
		item, _, err := c.listed(order[0].Expr)
		if err != nil {
			return false
		}
		if c.isColumn(part.Column, item) && order[0].Desc == part.Desc {
			order = order[1:]
			continue
		}
		if c.boundsOf(part.Column, conditions).equal == nil {
			return false
		}
	}
	return len(order) == 0
}

// conjuncts takes ANDs apart.
func conjuncts(conditions []spansql.Expr) []spansql.Expr {
	var flat []spansql.Expr
	for _, condition := range conditions {
		switch e := condition.(type) {
		case spansql.Paren:
			flat = append(flat, conjuncts([]spansql.Expr{e.Expr})...)
		case spansql.LogicalOp:
			if e.Op == spansql.And {
				flat = append(flat, conjuncts([]spansql.Expr{e.LHS, e.RHS})...)
				continue
			}
			flat = append(flat, e)
		default:
			flat = append(flat, e)
		}
	}
	return flat
}

// disjuncts takes ORs apart.
func disjuncts(e spansql.Expr) []spansql.Expr {
	switch e := e.(type) {
	case spansql.Paren:
		return disjuncts(e.Expr)
	case spansql.LogicalOp:
		if e.Op == spansql.Or {
			return append(disjuncts(e.LHS), disjuncts(e.RHS)...)
		}
	}
	return []spansql.Expr{e}
}
