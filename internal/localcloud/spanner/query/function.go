package query

import (
	"strings"
	"time"
	"unicode/utf8"

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
		return constant(rows.Timestamp, time.Now().UTC()), nil
	case "LOWER":
		return textFunction(name, args, rows.String, func(s ...string) any { return strings.ToLower(s[0]) }, 1)
	case "UPPER":
		return textFunction(name, args, rows.String, func(s ...string) any { return strings.ToUpper(s[0]) }, 1)
	case "LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH":
		return textFunction(name, args, rows.Int64, func(s ...string) any { return int64(utf8.RuneCountInString(s[0])) }, 1)
	case "BYTE_LENGTH":
		return textFunction(name, args, rows.Int64, func(s ...string) any { return int64(len(s[0])) }, 1)
	case "STARTS_WITH":
		return textFunction(name, args, rows.Bool, func(s ...string) any { return strings.HasPrefix(s[0], s[1]) }, 2)
	case "ENDS_WITH":
		return textFunction(name, args, rows.Bool, func(s ...string) any { return strings.HasSuffix(s[0], s[1]) }, 2)
	case "CONCAT":
		return textFunction(name, args, rows.String, func(s ...string) any { return strings.Join(s, "") }, len(args))
	case "JSON_VALUE":
		return jsonValue(args)
	default:
		return nil, unimplemented("the function " + name)
	}
}

// textFunction applies a function of n STRINGs; it is NULL when any of them is.
func textFunction(name string, args []*expr, kind rows.Kind, apply func(...string) any, n int) (*expr, error) {
	if len(args) != n || n == 0 {
		return nil, invalid("%s takes %d arguments, got %d.", name, max(n, 1), len(args))
	}
	for i, arg := range args {
		if arg.array || arg.kind != rows.String && arg.kind != 0 {
			return nil, unimplemented(name + " of " + args[i].typeName())
		}
	}
	return &expr{kind: kind, constant: allConstant(args...), eval: func(e *env) (any, error) {
		texts := make([]string, len(args))
		for i, arg := range args {
			value, err := arg.eval(e)
			if err != nil || value == nil {
				return nil, err
			}
			texts[i] = value.(string)
		}
		return apply(texts...), nil
	}}, nil
}

// caseExpr compiles CASE in both its forms, and IF.
func (c *compiler) caseExpr(e spansql.Case) (*expr, error) {
	conditions := make([]*expr, 0, len(e.WhenClauses))
	results := make([]*expr, 0, len(e.WhenClauses)+1)
	for _, when := range e.WhenClauses {
		test := when.Cond
		if e.Expr != nil {
			test = spansql.ComparisonOp{Op: spansql.Eq, LHS: e.Expr, RHS: when.Cond}
		}
		condition, err := c.condition("WHEN clause", test)
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
