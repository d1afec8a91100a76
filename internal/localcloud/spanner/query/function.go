package query

import (
	"strings"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// function compiles a call. Aggregates read their group.
func (c *compiler) function(call spansql.Func) (*expr, error) {
	name := strings.ToUpper(call.Name)
	if aggregateKinds[name] {
		return c.aggregate(call)
	}
	if name == "CAST" || name == "SAFE_CAST" {
		return c.cast(call, name == "SAFE_CAST")
	}
	if call.Distinct {
		return nil, invalid("Syntax error: DISTINCT is not allowed in the function %s.", name)
	}
	if partFunctions[name] {
		return c.partFunction(name, call.Args)
	}
	args := make([]*expr, 0, len(call.Args))
	for _, arg := range call.Args {
		compiled, err := c.expr(arg)
		if err != nil {
			return nil, err
		}
		args = append(args, compiled)
	}
	switch name {
	case "CURRENT_TIMESTAMP":
		if len(args) > 0 {
			return nil, noSignature(name, args)
		}
		return constant(rows.Timestamp, c.now), nil
	case "CONCAT":
		return concat(args)
	case "JSON_VALUE":
		return jsonValue(args)
	case "GREATEST", "LEAST":
		return extremeOf(name, args)
	}
	if list, ok := functions[name]; ok {
		return overloaded(name, list, args)
	}
	return nil, unimplemented("the function " + name)
}

func noSignature(name string, args []*expr) error {
	return invalid("No matching signature for function %s for argument types: %s.", name, typeNames(args))
}

// signature is one form of a function: what it takes and what it makes of values that are not NULL.
type signature struct {
	args     []rows.Kind
	optional int // how many of the args may be left out at the end
	result   rows.Kind
	apply    func(args []any) (any, error)
}

// total makes a function that never fails fit a signature.
func total(apply func(args []any) any) func([]any) (any, error) {
	return func(args []any) (any, error) { return apply(args), nil }
}

// overloaded calls the first signature that takes the arguments.
func overloaded(name string, list []signature, args []*expr) (*expr, error) {
	for _, s := range list {
		if converted, ok := s.match(args); ok {
			return s.call(converted), nil
		}
	}
	for _, arg := range args {
		if arg.kind == rows.Bytes || arg.array {
			return nil, unimplemented(name + " of " + arg.typeName())
		}
	}
	return nil, noSignature(name, args)
}

func (s signature) match(args []*expr) ([]*expr, bool) {
	if len(args) > len(s.args) || len(args) < len(s.args)-s.optional {
		return nil, false
	}
	converted := make([]*expr, len(args))
	for i, arg := range args {
		var err error
		if converted[i], err = arg.to(s.args[i]); err != nil {
			return nil, false
		}
	}
	return converted, true
}

// call is NULL when an argument is.
func (s signature) call(args []*expr) *expr {
	return &expr{kind: s.result, constant: allConstant(args...), eval: func(e *env) (any, error) {
		values := make([]any, len(args))
		for i, arg := range args {
			value, err := arg.eval(e)
			if err != nil || value == nil {
				return nil, err
			}
			values[i] = value
		}
		return s.apply(values)
	}}
}

// concat joins any number of STRINGs.
func concat(args []*expr) (*expr, error) {
	kinds := make([]rows.Kind, len(args))
	for i := range kinds {
		kinds[i] = rows.String
	}
	if len(args) == 0 {
		return nil, noSignature("CONCAT", args)
	}
	return overloaded("CONCAT", []signature{{args: kinds, result: rows.String, apply: total(func(args []any) any {
		var b strings.Builder
		for _, arg := range args {
			b.WriteString(arg.(string))
		}
		return b.String()
	})}}, args)
}

// extremeOf compiles GREATEST and LEAST: NULL when any value is, else NaN when any value is.
func extremeOf(name string, args []*expr) (*expr, error) {
	if len(args) == 0 {
		return nil, noSignature(name, args)
	}
	args, kind, err := common(name, args...)
	if err != nil {
		return nil, err
	}
	sign := 1
	if name == "LEAST" {
		sign = -1
	}
	kinds := make([]rows.Kind, len(args))
	for i := range kinds {
		kinds[i] = kind
	}
	return signature{args: kinds, result: kind, apply: func(values []any) (any, error) {
		x := extreme{sign: sign}
		for _, value := range values {
			if err := x.add(value); err != nil {
				return nil, err
			}
		}
		return x.value, nil
	}}.call(args), nil
}

// caseExpr compiles CASE in both its forms, and IF.
func (c *compiler) caseExpr(e spansql.Case) (*expr, error) {
	var subject *expr
	set := func(*env) error { return nil }
	if e.Expr != nil {
		compiled, err := c.expr(e.Expr)
		if err != nil {
			return nil, err
		}
		subject, set = shared(compiled)
	}
	conditions := make([]*expr, 0, len(e.WhenClauses))
	results := make([]*expr, 0, len(e.WhenClauses)+1)
	for _, when := range e.WhenClauses {
		condition, err := c.when(subject, when.Cond)
		if err != nil {
			return nil, err
		}
		result, err := c.expr(when.Result)
		if err != nil {
			return nil, err
		}
		conditions, results = append(conditions, condition), append(results, result)
	}
	otherwise := constant(0, nil)
	if e.ElseResult != nil {
		var err error
		if otherwise, err = c.expr(e.ElseResult); err != nil {
			return nil, err
		}
	}
	results, kind, err := common("CASE", append(results, otherwise)...)
	if err != nil {
		return nil, err
	}
	return &expr{kind: kind, constant: allConstant(results...) && allConstant(conditions...), eval: func(e *env) (any, error) {
		if err := set(e); err != nil {
			return nil, err
		}
		for i, condition := range conditions {
			holds, err := condition.eval(e)
			if err != nil {
				return nil, err
			}
			if holds == true {
				return results[i].eval(e)
			}
		}
		return results[len(results)-1].eval(e)
	}}, nil
}

// when compiles the condition of a WHEN: a comparison with the subject if there is one.
func (c *compiler) when(subject *expr, e spansql.Expr) (*expr, error) {
	if subject == nil {
		return c.condition("WHEN clause", e)
	}
	value, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return compare(spansql.Eq, subject, value)
}

func (c *compiler) coalesce(list []spansql.Expr) (*expr, error) {
	args := make([]*expr, 0, len(list))
	for _, e := range list {
		arg, err := c.expr(e)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	args, kind, err := common("COALESCE", args...)
	if err != nil {
		return nil, err
	}
	return &expr{kind: kind, constant: allConstant(args...), eval: func(e *env) (any, error) {
		for _, arg := range args {
			if value, err := arg.eval(e); err != nil || value != nil {
				return value, err
			}
		}
		return nil, nil
	}}, nil
}

// nullIf is NULL where both values are equal, and the first one elsewhere.
func (c *compiler) nullIf(e spansql.NullIf) (*expr, error) {
	first, err := c.expr(e.Expr)
	if err != nil {
		return nil, err
	}
	second, err := c.expr(e.ExprToMatch)
	if err != nil {
		return nil, err
	}
	sides, kind, err := common("NULLIF", first, second)
	if err != nil {
		return nil, err
	}
	held, set := shared(sides[0])
	equal, err := compare(spansql.Eq, held, sides[1])
	if err != nil {
		return nil, err
	}
	return &expr{kind: kind, constant: allConstant(sides...), eval: func(e *env) (any, error) {
		if err := set(e); err != nil {
			return nil, err
		}
		if same, err := equal.eval(e); err != nil || same == true {
			return nil, err
		}
		return held.eval(e)
	}}, nil
}
