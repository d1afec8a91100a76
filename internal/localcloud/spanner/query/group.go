package query

import (
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// grouping is GROUP BY with the aggregates of the statement; no keys means one group over all rows.
type grouping struct {
	exprs      []spansql.Expr
	keys       []*expr
	aggregates []aggregate
}

// groupKey returns the expression that reads the group's key if e is one, else nil.
func (c *compiler) groupKey(e spansql.Expr) *expr {
	for i, by := range c.grouping.exprs {
		if c.same(by, e) {
			return &expr{kind: c.grouping.keys[i].kind, eval: func(e *env) (any, error) { return e.keys[i], nil }}
		}
	}
	return nil
}

// group sets up the grouping, if the statement needs one.
func (c *compiler) group(q *Query, parsed *parse.Query) error {
	aggregated := slices.ContainsFunc(c.list, hasAggregate) || parsed.Having != nil && hasAggregate(parsed.Having) ||
		slices.ContainsFunc(parsed.Order, func(by spansql.Order) bool { return hasAggregate(by.Expr) })
	if len(parsed.GroupBy) == 0 && !aggregated {
		return nil
	}
	g := &grouping{}
	for _, by := range parsed.GroupBy {
		item, _, err := c.listed(by)
		if err != nil {
			return err
		}
		key, err := c.expr(item)
		if err != nil {
			return err
		}
		if key.array {
			return unimplemented("GROUP BY an ARRAY")
		}
		g.exprs = append(g.exprs, item)
		g.keys = append(g.keys, key)
	}
	q.grouping = g
	return nil
}

// hasAggregate reports whether an aggregate function stands anywhere in the expression.
func hasAggregate(e spansql.Expr) bool {
	switch e := e.(type) {
	case spansql.Func:
		return aggregateKinds[strings.ToUpper(e.Name)] || slices.ContainsFunc(e.Args, hasAggregate)
	case spansql.Paren:
		return hasAggregate(e.Expr)
	case spansql.ArithOp:
		return e.LHS != nil && hasAggregate(e.LHS) || hasAggregate(e.RHS)
	case spansql.ComparisonOp:
		return hasAggregate(e.LHS) || hasAggregate(e.RHS) || e.RHS2 != nil && hasAggregate(e.RHS2)
	case spansql.LogicalOp:
		return e.LHS != nil && hasAggregate(e.LHS) || hasAggregate(e.RHS)
	case spansql.IsOp:
		return hasAggregate(e.LHS)
	case spansql.InOp:
		return hasAggregate(e.LHS) || slices.ContainsFunc(e.RHS, hasAggregate)
	case spansql.Coalesce:
		return slices.ContainsFunc(e.ExprList, hasAggregate)
	case spansql.NullIf:
		return hasAggregate(e.Expr) || hasAggregate(e.ExprToMatch)
	case spansql.IfNull:
		return hasAggregate(e.Expr) || hasAggregate(e.NullResult)
	case spansql.If:
		return hasAggregate(e.Expr) || hasAggregate(e.TrueResult) || hasAggregate(e.ElseResult)
	case spansql.Case:
		return hasAggregateCase(e)
	case spansql.TypedExpr:
		return hasAggregate(e.Expr)
	default:
		return false
	}
}

func hasAggregateCase(e spansql.Case) bool {
	if e.Expr != nil && hasAggregate(e.Expr) || e.ElseResult != nil && hasAggregate(e.ElseResult) {
		return true
	}
	return slices.ContainsFunc(e.WhenClauses, func(when spansql.WhenClause) bool {
		return hasAggregate(when.Cond) || hasAggregate(when.Result)
	})
}

// groups holds the groups of one run.
type groups struct {
	grouping *grouping
	byKey    map[string]*group
}

type group struct {
	keys   []any
	states []state
}

func newGroups(g *grouping) *groups {
	gs := &groups{grouping: g, byKey: map[string]*group{}}
	if len(g.keys) == 0 {
		gs.byKey[""] = g.newGroup(nil) // an aggregate over no rows still answers one
	}
	return gs
}

func (g *grouping) newGroup(keys []any) *group {
	created := &group{keys: keys, states: make([]state, len(g.aggregates))}
	for i, aggregate := range g.aggregates {
		created.states[i] = aggregate.start()
	}
	return created
}

// add feeds a row to its group.
func (gs *groups) add(e *env) error {
	keys := make([]any, len(gs.grouping.keys))
	for i, key := range gs.grouping.keys {
		value, err := key.eval(e)
		if err != nil {
			return err
		}
		keys[i] = value
	}
	id := groupKey(keys)
	in, ok := gs.byKey[id]
	if !ok {
		in = gs.grouping.newGroup(keys)
		gs.byKey[id] = in
	}
	for i, aggregate := range gs.grouping.aggregates {
		value, err := aggregate.arg.eval(e)
		if err != nil {
			return err
		}
		if err := in.states[i].add(value); err != nil {
			return err
		}
	}
	return nil
}

// each visits the groups in the order of their keys, the same in each run.
func (gs *groups) each(visit func(*env) error) error {
	for _, id := range slices.Sorted(maps.Keys(gs.byKey)) {
		in := gs.byKey[id]
		e := &env{keys: in.keys, aggregates: make([]any, len(in.states))}
		for i, state := range in.states {
			e.aggregates[i] = state.result()
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// aggregate is one aggregate function of the statement.
type aggregate struct {
	arg   *expr
	start func() state
}

// aggregate compiles the call and returns the expression that reads its result.
func (c *compiler) aggregate(call spansql.Func) (*expr, error) {
	if c.grouping == nil {
		return nil, invalid("Aggregate function %s is not allowed here.", call.Name)
	}
	if call.Having != nil || call.NullsHandling != spansql.NullsHandlingUnspecified {
		return nil, unimplemented(call.SQL())
	}
	if len(call.Args) != 1 {
		return nil, invalid("%s takes one argument.", call.Name)
	}
	arg := constant(rows.Bool, true) // of COUNT(*)
	if call.Args[0] != spansql.Star {
		g := c.grouping
		c.grouping = nil // the argument sees rows
		compiled, err := c.expr(call.Args[0])
		c.grouping = g
		if err != nil {
			return nil, err
		}
		arg = compiled
	} else if !strings.EqualFold(call.Name, "COUNT") {
		return nil, invalid("Argument * can only be used in COUNT(*).")
	}
	agg, kind, err := newAggregate(call, arg)
	if err != nil {
		return nil, err
	}
	i := len(c.grouping.aggregates)
	c.grouping.aggregates = append(c.grouping.aggregates, agg)
	return &expr{kind: kind, eval: func(e *env) (any, error) { return e.aggregates[i], nil }}, nil
}
