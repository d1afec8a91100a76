package query

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// Source is where the rows come from. Timestamps are microseconds since 1970; errors are gRPC status errors.
type Source interface {
	Table(name string) (*rows.Table, error)
	// Scan visits the rows of the spans in key order as they were at the timestamp, until visit says no more.
	// The row is overwritten by the next call.
	Scan(ctx context.Context, table *rows.Table, spans []rows.Span, timestamp int64, visit func(row []any) (bool, error)) error
}

// Param is the value of a query parameter.
type Param struct {
	Kind  rows.Kind // 0: the client left the type open
	Array bool      // Value is []any
	Value any
}

// Column is a column of the result.
type Column struct {
	Name string
	Kind rows.Kind
}

// Query is a compiled statement. It can run many times, not concurrently.
type Query struct {
	Columns []Column

	source Source
	table  *rows.Table // nil without a FROM
	spans  []rows.Span
	where  *expr // nil: every row

	grouping *grouping // nil: no GROUP BY and no aggregate
	having   *expr     // nil: every group
	selected []*expr
	distinct bool
	order    []ordering // empty when the scan's order is the wanted one
	offset   int64
	limit    int64 // negative: none
}

type ordering struct {
	expr *expr
	desc bool
}

// Reads returns what the query reads: a table, nil without a FROM, and the spans of its key.
func (q *Query) Reads() (*rows.Table, []rows.Span) { return q.table, q.spans }

// errEnough ends a scan from within once LIMIT is reached.
var errEnough = errors.New("enough rows")

// Run calls emit for each row of the result, as of the timestamp. The row is overwritten by the next call.
func (q *Query) Run(ctx context.Context, timestamp int64, emit func(row []any) error) error {
	out := newOutput(q, emit)
	err := q.run(ctx, timestamp, out)
	if err == nil {
		err = out.finish()
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (q *Query) run(ctx context.Context, timestamp int64, out *output) error {
	if q.limit == 0 {
		return nil
	}
	if q.grouping == nil {
		return q.scan(ctx, timestamp, out.add)
	}
	groups := newGroups(q.grouping)
	if err := q.scan(ctx, timestamp, groups.add); err != nil {
		return err
	}
	return groups.each(func(e *env) error {
		if q.having != nil {
			if pass, err := q.having.eval(e); err != nil || pass != true {
				return err
			}
		}
		return out.add(e)
	})
}

// scan calls visit with each row that WHERE lets through.
func (q *Query) scan(ctx context.Context, timestamp int64, visit func(*env) error) error {
	e := &env{}
	each := func(row []any) (bool, error) {
		e.row = row
		if q.where != nil {
			pass, err := q.where.eval(e)
			if err != nil {
				return false, err
			}
			if pass != true {
				return true, nil
			}
		}
		return true, visit(e)
	}
	if q.table == nil {
		_, err := each(nil)
		return err
	}
	return q.source.Scan(ctx, q.table, q.spans, timestamp, each)
}

// output applies SELECT, DISTINCT, ORDER BY, OFFSET and LIMIT to the rows it is given.
type output struct {
	q       *Query
	emit    func([]any) error
	row     []any
	seen    map[string]struct{}
	sorted  []sortable
	skipped int64
	emitted int64
}

type sortable struct {
	row  []any
	keys []any
}

func newOutput(q *Query, emit func([]any) error) *output {
	o := &output{q: q, emit: emit, row: make([]any, len(q.selected))}
	if q.distinct {
		o.seen = map[string]struct{}{}
	}
	return o
}

func (o *output) add(e *env) error {
	for i, selected := range o.q.selected {
		value, err := selected.eval(e)
		if err != nil {
			return err
		}
		o.row[i] = value
	}
	if o.seen != nil {
		key := groupKey(o.row)
		if _, dup := o.seen[key]; dup {
			return nil
		}
		o.seen[key] = struct{}{}
	}
	if len(o.q.order) == 0 {
		return o.pass(o.row)
	}
	keys := make([]any, len(o.q.order))
	for i, ordering := range o.q.order {
		value, err := ordering.expr.eval(e)
		if err != nil {
			return err
		}
		keys[i] = value
	}
	o.sorted = append(o.sorted, sortable{row: slices.Clone(o.row), keys: keys})
	return nil
}

// finish sorts and passes on what had to wait for all rows.
func (o *output) finish() error {
	slices.SortStableFunc(o.sorted, func(a, b sortable) int {
		for i, ordering := range o.q.order {
			c := rows.Compare(a.keys[i], b.keys[i])
			if ordering.desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	for _, s := range o.sorted {
		if err := o.pass(s.row); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) pass(row []any) error {
	if o.skipped < o.q.offset {
		o.skipped++
		return nil
	}
	if err := o.emit(row); err != nil {
		return err
	}
	if o.emitted++; o.emitted == o.q.limit {
		return errEnough
	}
	return nil
}

func unimplemented(construct string) error {
	return status.Errorf(codes.Unimplemented, "localcloud does not support %s in a query.", construct)
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// count evaluates the value of LIMIT or OFFSET.
func (c *compiler) count(clause string, value spansql.LiteralOrParam) (int64, error) {
	var n int64
	switch v := value.(type) {
	case spansql.IntegerLiteral:
		n = int64(v)
	case spansql.Param:
		param, ok := c.params[strings.ToLower(string(v))]
		if !ok {
			return 0, invalid("No value given for the query parameter @%s.", string(v))
		}
		coerced, err := c.param(param).to(rows.Int64)
		if err != nil {
			return 0, err
		}
		number, err := coerced.eval(nil)
		if err != nil {
			return 0, err
		}
		if n, ok = number.(int64); !ok {
			return 0, invalid("%s expects an INT64 that is not NULL.", clause)
		}
	default:
		return 0, unimplemented(clause + " " + value.SQL())
	}
	if n < 0 {
		return 0, invalid("%s expects a non-negative integer, got %d.", clause, n)
	}
	return n, nil
}
