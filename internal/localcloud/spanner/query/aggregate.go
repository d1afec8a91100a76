package query

import (
	"strings"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// aggregateKinds are the aggregate functions of Spanner; newAggregate knows which of them work here.
var aggregateKinds = map[string]bool{
	"COUNT": true, "COUNTIF": true, "SUM": true, "AVG": true, "MIN": true, "MAX": true, "ANY_VALUE": true,
	"ARRAY_AGG": true, "ARRAY_CONCAT_AGG": true, "STRING_AGG": true, "BIT_AND": true, "BIT_OR": true, "BIT_XOR": true,
	"LOGICAL_AND": true, "LOGICAL_OR": true, "STDDEV": true, "STDDEV_SAMP": true, "VAR_SAMP": true, "VARIANCE": true,
}

// state gathers one aggregate over one group.
type state interface {
	add(value any) error
	result() any
}

// newAggregate picks the aggregate for the call and the type of its result.
func newAggregate(call spansql.Func, arg *expr) (aggregate, rows.Kind, error) {
	name := strings.ToUpper(call.Name)
	if arg.array {
		return aggregate{}, 0, invalid("Aggregate function %s does not take %s.", name, arg.typeName())
	}
	numeric := arg.kind == rows.Int64 || arg.kind == rows.Float64
	agg, kind := aggregate{arg: arg}, arg.kind
	switch {
	case name == "COUNT":
		agg.start, kind = func() state { return &counter{} }, rows.Int64
	case name == "COUNTIF" && arg.kind == rows.Bool:
		agg.start, kind = func() state { return &counter{onlyTrue: true} }, rows.Int64
	case name == "SUM" && arg.kind == rows.Int64:
		agg.start = func() state { return &intSum{} }
	case name == "SUM" && arg.kind == rows.Float64:
		agg.start = func() state { return &floatSum{} }
	case name == "AVG" && numeric:
		agg.start, kind = func() state { return &floatSum{average: true} }, rows.Float64
	case name == "MIN":
		agg.start = func() state { return &extreme{sign: -1} }
	case name == "MAX":
		agg.start = func() state { return &extreme{sign: 1} }
	case name == "ANY_VALUE":
		agg.start = func() state { return &anyValue{} }
	case name == "COUNTIF" || name == "SUM" || name == "AVG":
		return aggregate{}, 0, invalid("No matching signature for aggregate function %s for argument types: %s.", name, arg.typeName())
	default:
		return aggregate{}, 0, unimplemented("the aggregate function " + name)
	}
	if call.Distinct {
		start := agg.start
		agg.start = func() state { return &distinct{state: start(), seen: map[string]struct{}{}} }
	}
	return agg, kind, nil
}

// distinct lets each value through once.
type distinct struct {
	state
	seen map[string]struct{}
}

func (d *distinct) add(value any) error {
	key := groupKey([]any{value})
	if _, dup := d.seen[key]; dup {
		return nil
	}
	d.seen[key] = struct{}{}
	return d.state.add(value)
}

// counter counts what is not NULL, or only what is TRUE.
type counter struct {
	onlyTrue bool
	n        int64
}

func (c *counter) add(value any) error {
	if value != nil && (!c.onlyTrue || value == true) {
		c.n++
	}
	return nil
}

func (c *counter) result() any { return c.n }

type intSum struct {
	sum any
}

func (s *intSum) add(value any) error {
	if value == nil {
		return nil
	}
	if s.sum == nil {
		s.sum = value
		return nil
	}
	sum, err := addInts(s.sum.(int64), value.(int64))
	if err != nil {
		return err
	}
	s.sum = sum
	return nil
}

func (s *intSum) result() any { return s.sum }

type floatSum struct {
	average bool
	sum     float64
	n       int64
}

func (s *floatSum) add(value any) error {
	switch v := value.(type) {
	case int64:
		s.sum += float64(v)
		s.n++
	case float64:
		s.sum += v
		s.n++
	}
	return nil
}

func (s *floatSum) result() any {
	switch {
	case s.n == 0:
		return nil
	case s.average:
		return s.sum / float64(s.n)
	default:
		return s.sum
	}
}

// extreme keeps the smallest (sign -1) or greatest value; NaN, once met, stays.
type extreme struct {
	sign  int
	value any
}

func (x *extreme) add(value any) error {
	if value == nil || isNaN(x.value) {
		return nil
	}
	if x.value == nil || isNaN(value) || rows.Compare(value, x.value) == x.sign {
		x.value = value
	}
	return nil
}

func (x *extreme) result() any { return x.value }

// anyValue keeps the first value, in key order.
type anyValue struct {
	set   bool
	value any
}

func (x *anyValue) add(value any) error {
	if !x.set {
		x.set, x.value = true, value
	}
	return nil
}

func (x *anyValue) result() any { return x.value }
