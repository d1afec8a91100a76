package query

import (
	"math"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// arith compiles + - * / and ||.
func (c *compiler) arith(op spansql.ArithOp) (*expr, error) {
	right, err := c.expr(op.RHS)
	if err != nil {
		return nil, err
	}
	if op.LHS == nil {
		return unary(op, right)
	}
	left, err := c.expr(op.LHS)
	if err != nil {
		return nil, err
	}
	sides, kind, err := common("an operator", left, right)
	if err != nil {
		return nil, err
	}
	if op.Op == spansql.Div && kind == rows.Int64 {
		for i := range sides {
			if sides[i], err = sides[i].to(rows.Float64); err != nil {
				return nil, err
			}
		}
		kind = rows.Float64
	}
	apply := binary(op.Op, kind)
	if apply == nil {
		return nil, unimplemented("the operator in " + op.SQL())
	}
	return &expr{kind: kind, constant: allConstant(sides...), eval: func(e *env) (any, error) {
		a, err := sides[0].eval(e)
		if err != nil || a == nil {
			return nil, err
		}
		b, err := sides[1].eval(e)
		if err != nil || b == nil {
			return nil, err
		}
		return apply(a, b)
	}}, nil
}

func unary(op spansql.ArithOp, x *expr) (*expr, error) {
	if x.kind != rows.Int64 && x.kind != rows.Float64 || op.Op == spansql.BitNot {
		return nil, unimplemented("the operator in " + op.SQL())
	}
	if op.Op == spansql.Plus {
		return x, nil
	}
	return x.mapped(x.kind, func(value any) (any, error) {
		if n, ok := value.(int64); ok {
			if n == math.MinInt64 {
				return nil, overflow()
			}
			return -n, nil
		}
		return -value.(float64), nil
	}), nil
}

func overflow() error { return status.Error(codes.OutOfRange, "INT64 overflow") }

func binary(op spansql.ArithOperator, kind rows.Kind) func(a, b any) (any, error) {
	switch {
	case kind == rows.String && op == spansql.Concat:
		return func(a, b any) (any, error) { return a.(string) + b.(string), nil }
	case kind == rows.Float64:
		return floatOperator(op)
	case kind == rows.Int64:
		return intOperator(op)
	default:
		return nil
	}
}

func floatOperator(op spansql.ArithOperator) func(a, b any) (any, error) {
	switch op {
	case spansql.Add:
		return finite(func(a, b float64) float64 { return a + b })
	case spansql.Sub:
		return finite(func(a, b float64) float64 { return a - b })
	case spansql.Mul:
		return finite(func(a, b float64) float64 { return a * b })
	case spansql.Div:
		divide := finite(func(a, b float64) float64 { return a / b })
		return func(a, b any) (any, error) {
			if b.(float64) == 0 {
				return nil, divisionByZero()
			}
			return divide(a, b)
		}
	default:
		return nil
	}
}

// finite refuses a result that is infinite where the operands are not.
func finite(apply func(a, b float64) float64) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		x, y := a.(float64), b.(float64)
		result := apply(x, y)
		if math.IsInf(result, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			return nil, status.Errorf(codes.OutOfRange, "floating point overflow: %v and %v", x, y)
		}
		return result, nil
	}
}

func intOperator(op spansql.ArithOperator) func(a, b any) (any, error) {
	switch op {
	case spansql.Add:
		return func(a, b any) (any, error) { return addInts(a.(int64), b.(int64)) }
	case spansql.Sub:
		return func(a, b any) (any, error) {
			x, y := a.(int64), b.(int64)
			if d := x - y; (d < x) == (y > 0) {
				return d, nil
			}
			return nil, overflow()
		}
	case spansql.Mul:
		return func(a, b any) (any, error) {
			x, y := a.(int64), b.(int64)
			if x == 0 || y == 0 {
				return int64(0), nil
			}
			p := x * y
			if p/y != x || x == -1 && y == math.MinInt64 || y == -1 && x == math.MinInt64 {
				return nil, overflow()
			}
			return p, nil
		}
	default:
		return nil
	}
}

func addInts(x, y int64) (any, error) {
	if s := x + y; (s > x) == (y > 0) {
		return s, nil
	}
	return nil, overflow()
}
