package parse

import (
	"cloud.google.com/go/spanner/spansql"
)

// The levels of GoogleSQL's operators, from the loosest: OR, AND, NOT, comparisons, |, ^, &, shifts, + and -,
// *, / and ||, the unary ones. All of two operands take their left neighbour first, and comparisons take none.

// expr reads an expression.
func (p *parser) expr() (spansql.Expr, error) {
	leave, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer leave()
	return p.logical("OR", spansql.Or, func() (spansql.Expr, error) { return p.logical("AND", spansql.And, p.not) })
}

// exprs reads one expression or more, with commas in between.
func (p *parser) exprs() ([]spansql.Expr, error) {
	var list []spansql.Expr
	for {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if !p.eat(",") {
			return list, nil
		}
	}
}

func (p *parser) logical(keyword string, op spansql.LogicalOperator, operand func() (spansql.Expr, error)) (spansql.Expr, error) {
	left, err := operand()
	if err != nil {
		return nil, err
	}
	for p.eat(keyword) {
		if err := p.operator(); err != nil {
			return nil, err
		}
		right, err := operand()
		if err != nil {
			return nil, err
		}
		left = spansql.LogicalOp{Op: op, LHS: asBool(left), RHS: asBool(right)}
	}
	return left, nil
}

// asBool gives an expression the type that stands for conditions. Whether it is one shows when it is compiled.
func asBool(e spansql.Expr) spansql.BoolExpr {
	if b, ok := e.(spansql.BoolExpr); ok {
		return b
	}
	return spansql.Paren{Expr: e}
}

func (p *parser) not() (spansql.Expr, error) {
	if !p.eat("NOT") {
		return p.comparison()
	}
	leave, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.not()
	if err != nil {
		return nil, err
	}
	return spansql.LogicalOp{Op: spansql.Not, RHS: asBool(e)}, nil
}

var comparisons = []struct {
	symbol string
	op     spansql.ComparisonOperator
}{
	{"=", spansql.Eq},
	{"!=", spansql.Ne},
	{"<>", spansql.Ne},
	{"<", spansql.Lt},
	{"<=", spansql.Le},
	{">", spansql.Gt},
	{">=", spansql.Ge},
}

// comparison reads at most one comparison: a < b < c needs brackets in GoogleSQL as well.
func (p *parser) comparison() (spansql.Expr, error) {
	left, err := p.bitOr()
	if err != nil {
		return nil, err
	}
	compared, err := p.compare(left)
	if err != nil || compared == nil {
		return left, err
	}
	if again, err := p.compare(compared); err != nil || again != nil {
		return nil, p.unexpected("a comparison of a comparison needs parentheses")
	}
	return compared, nil
}

// compare reads the operator and the right side of a comparison, or returns nil if there is none.
func (p *parser) compare(left spansql.Expr) (spansql.Expr, error) {
	for _, c := range comparisons {
		if p.eat(c.symbol) {
			right, err := p.bitOr()
			return spansql.ComparisonOp{Op: c.op, LHS: left, RHS: right}, err
		}
	}
	negated := p.peek().is("NOT") && (p.peekAt(1).is("LIKE") || p.peekAt(1).is("BETWEEN") || p.peekAt(1).is("IN")) && p.eat("NOT")
	switch {
	case p.eat("LIKE"):
		if err := p.refuse("ANY", "SOME", "ALL"); err != nil {
			return nil, err
		}
		right, err := p.bitOr()
		return spansql.ComparisonOp{Op: pick(negated, spansql.NotLike, spansql.Like), LHS: left, RHS: right}, err
	case p.eat("BETWEEN"):
		low, err := p.bitOr()
		if err != nil {
			return nil, err
		}
		if err := p.expect("AND"); err != nil {
			return nil, err
		}
		high, err := p.bitOr()
		return spansql.ComparisonOp{Op: pick(negated, spansql.NotBetween, spansql.Between), LHS: left, RHS: low, RHS2: high}, err
	case p.eat("IN"):
		return p.in(left, negated)
	case p.eat("IS"):
		return p.is(left)
	default:
		return nil, nil
	}
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

func (p *parser) in(left spansql.Expr, negated bool) (spansql.Expr, error) {
	op := spansql.InOp{LHS: left, Neg: negated, Unnest: p.eat("UNNEST")}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if p.peek().is("SELECT") || p.peek().is("WITH") {
		return nil, Unimplemented("a subquery")
	}
	var err error
	if op.RHS, err = p.exprs(); err != nil {
		return nil, err
	}
	return op, p.expect(")")
}

func (p *parser) is(left spansql.Expr) (spansql.Expr, error) {
	op := spansql.IsOp{LHS: left, Neg: p.eat("NOT")}
	switch {
	case p.eat("NULL"):
		op.RHS = spansql.Null
	case p.eat("TRUE"):
		op.RHS = spansql.True
	case p.eat("FALSE"):
		op.RHS = spansql.False
	case p.peek().is("DISTINCT"):
		return nil, Unimplemented("IS DISTINCT FROM")
	default:
		return nil, p.unexpected("expected NULL, TRUE or FALSE")
	}
	return op, nil
}

// level is the operators of one precedence.
type level []struct {
	symbol string
	op     spansql.ArithOperator
}

var levels = []level{
	{{"|", spansql.BitOr}},
	{{"^", spansql.BitXor}},
	{{"&", spansql.BitAnd}},
	{{"<<", spansql.BitShl}, {">>", spansql.BitShr}},
	{{"+", spansql.Add}, {"-", spansql.Sub}},
	{{"*", spansql.Mul}, {"/", spansql.Div}, {"||", spansql.Concat}},
}

func (p *parser) bitOr() (spansql.Expr, error) { return p.arith(0) }

// arith reads the operators from the given level on.
func (p *parser) arith(from int) (spansql.Expr, error) {
	if from == len(levels) {
		return p.unary()
	}
	left, err := p.arith(from + 1)
	if err != nil {
		return nil, err
	}
	for {
		op, ok := p.operatorOf(levels[from])
		if !ok {
			return left, nil
		}
		if err := p.operator(); err != nil {
			return nil, err
		}
		right, err := p.arith(from + 1)
		if err != nil {
			return nil, err
		}
		left = spansql.ArithOp{Op: op, LHS: left, RHS: right}
	}
}

func (p *parser) operatorOf(l level) (spansql.ArithOperator, bool) {
	for _, o := range l {
		if p.eat(o.symbol) {
			return o.op, true
		}
	}
	return 0, false
}

func (p *parser) unary() (spansql.Expr, error) {
	sign := p.peek()
	var op spansql.ArithOperator
	switch {
	case p.eat("-"):
		if t := p.peek(); t.kind == integer {
			p.advance() // together, for the smallest INT64 has no positive twin
			n, err := p.integer(t, sign.value)
			return n, err
		}
		op = spansql.Neg
	case p.eat("+"):
		op = spansql.Plus
	case p.eat("~"):
		op = spansql.BitNot
	default:
		return p.primary()
	}
	leave, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer leave()
	operand, err := p.unary()
	return spansql.ArithOp{Op: op, RHS: operand}, err
}
