package query

import (
	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// in compiles IN over a list of expressions or over UNNEST of an array parameter.
func (c *compiler) in(op spansql.InOp) (*expr, error) {
	left, err := c.expr(op.LHS)
	if err != nil {
		return nil, err
	}
	members, err := c.members(op)
	if err != nil {
		return nil, err
	}
	all, kind, err := common("IN", append([]*expr{left}, members...)...)
	if err != nil {
		return nil, err
	}
	if allConstant(all[1:]...) {
		return inConstants(all[0], all[1:], op.Neg)
	}
	return &expr{kind: rows.Bool, constant: false, eval: func(e *env) (any, error) {
		value, err := all[0].eval(e)
		if err != nil || value == nil {
			return nil, err
		}
		unknown := false
		for _, member := range all[1:] {
			candidate, err := member.eval(e)
			if err != nil {
				return nil, err
			}
			if candidate == nil {
				unknown = true
			} else if kind != 0 && !isNaN(value) && rows.Compare(value, candidate) == 0 {
				return !op.Neg, nil
			}
		}
		if unknown {
			return nil, nil
		}
		return op.Neg, nil
	}}, nil
}

// members lists what IN compares with.
func (c *compiler) members(op spansql.InOp) ([]*expr, error) {
	if !op.Unnest {
		members := make([]*expr, 0, len(op.RHS))
		for _, e := range op.RHS {
			member, err := c.expr(e)
			if err != nil {
				return nil, err
			}
			members = append(members, member)
		}
		return members, nil
	}
	if len(op.RHS) != 1 {
		return nil, invalid("UNNEST takes one array.")
	}
	if list, ok := op.RHS[0].(spansql.Array); ok {
		return c.members(spansql.InOp{RHS: list})
	}
	array, err := c.expr(op.RHS[0])
	if err != nil {
		return nil, err
	}
	if !array.array || !array.constant {
		return nil, unimplemented("UNNEST of " + op.RHS[0].SQL())
	}
	value, err := array.eval(nil)
	if err != nil {
		return nil, err
	}
	list, _ := value.([]any) // a NULL array is empty
	members := make([]*expr, len(list))
	for i, element := range list {
		members[i] = constant(array.kind, element)
	}
	return members, nil
}

// inConstants looks values up in a set: a list of thousands of IDs costs no more a row than one.
func inConstants(left *expr, members []*expr, negate bool) (*expr, error) {
	set := make(map[string]struct{}, len(members))
	unknown := false
	for _, member := range members {
		value, err := member.eval(nil)
		if err != nil {
			return nil, err
		}
		if value == nil {
			unknown = true
			continue
		}
		if !isNaN(value) {
			set[groupKey([]any{value})] = struct{}{}
		}
	}
	if len(members) == 0 {
		return constant(rows.Bool, negate), nil
	}
	return left.mapped(rows.Bool, func(value any) (any, error) {
		if _, found := set[groupKey([]any{value})]; found {
			return !negate, nil
		}
		if unknown {
			return nil, nil
		}
		return negate, nil
	}), nil
}

// groupKey is equal for equal values, NULLs and NaNs included.
func groupKey(values []any) string {
	var key []byte
	for _, value := range values {
		key = rows.AppendKey(key, value)
	}
	return string(key)
}
