package query

import (
	"math"
	"regexp"
	"strings"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// operators maps the plain comparisons to a test of rows.Compare's answer.
var operators = map[spansql.ComparisonOperator]func(c int) bool{
	spansql.Lt: func(c int) bool { return c < 0 },
	spansql.Le: func(c int) bool { return c <= 0 },
	spansql.Gt: func(c int) bool { return c > 0 },
	spansql.Ge: func(c int) bool { return c >= 0 },
	spansql.Eq: func(c int) bool { return c == 0 },
	spansql.Ne: func(c int) bool { return c != 0 },
}

func (c *compiler) comparison(op spansql.ComparisonOp) (*expr, error) {
	left, err := c.expr(op.LHS)
	if err != nil {
		return nil, err
	}
	right, err := c.expr(op.RHS)
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case spansql.Between, spansql.NotBetween:
		high, err := c.expr(op.RHS2)
		if err != nil {
			return nil, err
		}
		return between(left, right, high, op.Op == spansql.NotBetween)
	case spansql.Like, spansql.NotLike:
		return like(left, right, op.Op == spansql.NotLike)
	default:
		return compare(op.Op, left, right)
	}
}

// compare compiles the operators that have two sides.
func compare(op spansql.ComparisonOperator, left, right *expr) (*expr, error) {
	test, ok := operators[op]
	if !ok {
		return nil, unimplemented("this comparison")
	}
	sides, _, err := common("a comparison", left, right)
	if err != nil {
		return nil, err
	}
	return compared(sides[0], sides[1], func(a, b any) bool {
		if isNaN(a) || isNaN(b) {
			return op == spansql.Ne
		}
		return test(rows.Compare(a, b))
	}), nil
}

// between is low <= x AND x <= high, with x evaluated once.
func between(x, low, high *expr, negate bool) (*expr, error) {
	held, set := shared(x)
	above, err := compare(spansql.Ge, held, low)
	if err != nil {
		return nil, err
	}
	below, err := compare(spansql.Le, held, high)
	if err != nil {
		return nil, err
	}
	both := connected(false, above, below)
	return (&expr{kind: rows.Bool, constant: allConstant(x, low, high), eval: func(e *env) (any, error) {
		if err := set(e); err != nil {
			return nil, err
		}
		return both.eval(e)
	}}).mapped(rows.Bool, func(value any) (any, error) { return value != negate, nil }), nil
}

// compared is NULL when either side is.
func compared(left, right *expr, test func(a, b any) bool) *expr {
	return &expr{kind: rows.Bool, constant: allConstant(left, right), eval: func(e *env) (any, error) {
		a, err := left.eval(e)
		if err != nil || a == nil {
			return nil, err
		}
		b, err := right.eval(e)
		if err != nil || b == nil {
			return nil, err
		}
		return test(a, b), nil
	}}
}

func isNaN(value any) bool {
	f, ok := value.(float64)
	return ok && math.IsNaN(f)
}

func like(left, right *expr, negate bool) (*expr, error) {
	sides, kind, err := common("LIKE", left, right)
	if err != nil {
		return nil, err
	}
	if kind != rows.String || !sides[1].constant {
		return nil, unimplemented("LIKE with anything but STRING and a constant pattern")
	}
	value, err := sides[1].eval(nil)
	if err != nil {
		return nil, err
	}
	pattern, ok := value.(string)
	if !ok {
		return constant(rows.Bool, nil), nil
	}
	matcher, err := likePattern(pattern)
	if err != nil {
		return nil, err
	}
	return sides[0].mapped(rows.Bool, func(value any) (any, error) { return matcher.MatchString(value.(string)) != negate, nil }), nil
}

// likePattern translates % and _, with \ before a character that stands for itself.
func likePattern(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '%':
			b.WriteString(".*")
		case r == '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	if escaped {
		return nil, invalid("LIKE pattern ends with a backslash.")
	}
	b.WriteString(`\z`)
	compiled, err := regexp.Compile(b.String())
	if err != nil {
		return nil, invalid("LIKE pattern is not valid: %v", err)
	}
	return compiled, nil
}

// logical follows three-valued logic: NULL is "unknown".
func (c *compiler) logical(op spansql.LogicalOp) (*expr, error) {
	right, err := c.condition("Logical operator", op.RHS)
	if err != nil {
		return nil, err
	}
	if op.Op == spansql.Not {
		return right.mapped(rows.Bool, func(value any) (any, error) { return value == false, nil }), nil
	}
	left, err := c.condition("Logical operator", op.LHS)
	if err != nil {
		return nil, err
	}
	return connected(op.Op == spansql.Or, left, right), nil
}

// connected is OR or AND: TRUE decides the one, FALSE the other, whatever the other side is.
func connected(decides bool, left, right *expr) *expr {
	return &expr{kind: rows.Bool, constant: allConstant(left, right), eval: func(e *env) (any, error) {
		a, err := left.eval(e)
		if err != nil || a == decides {
			return a, err
		}
		b, err := right.eval(e)
		if err != nil || b == decides {
			return b, err
		}
		if a == nil || b == nil {
			return nil, nil
		}
		return !decides, nil
	}}
}

func (c *compiler) is(op spansql.IsOp) (*expr, error) {
	left, err := c.expr(op.LHS)
	if err != nil {
		return nil, err
	}
	var want any
	switch rhs := op.RHS.(type) {
	case spansql.NullLiteral:
	case spansql.BoolLiteral:
		want = bool(rhs)
		if left, err = left.to(rows.Bool); err != nil {
			return nil, err
		}
	default:
		return nil, unimplemented("the operator in " + op.SQL())
	}
	return &expr{kind: rows.Bool, constant: left.constant, eval: func(e *env) (any, error) {
		value, err := left.eval(e)
		if want == nil {
			return (value == nil) != op.Neg, err
		}
		return (value == want) != op.Neg, err
	}}, nil
}
