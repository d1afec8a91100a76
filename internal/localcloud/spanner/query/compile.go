package query

import (
	"strings"
	"time"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// maxDepth bounds the operators that the compiler has to follow: deeper ones would overflow its stack, and no
// recover could save the process from that.
const maxDepth = 10_000

// Compile parses and checks a SELECT statement. Parameters are named without the @.
func Compile(source Source, sql string, params map[string]Param) (*Query, error) {
	parsed, err := parse.Select(sql)
	if err != nil {
		return nil, err
	}
	c := &compiler{source: source, params: lowerNames(params), now: time.Now().UTC()}
	return c.query(parsed)
}

// lowerNames keys the parameters as they are looked up: their names match without regard to case.
func lowerNames(params map[string]Param) map[string]Param {
	lower := make(map[string]Param, len(params))
	for name, param := range params {
		lower[strings.ToLower(name)] = param
	}
	return lower
}

func errTooDeep() error { return invalid("Query is too deeply nested.") }

// compiler turns the parts of one statement into closures.
type compiler struct {
	source Source
	params map[string]Param
	now    time.Time // one moment for the whole statement
	table  *rows.Table
	alias  string

	list    []spansql.Expr // the SELECT list, with * spelled out
	aliases []spansql.ID   // of the list; empty where there is none
	// byAlias is set while expressions are compiled that may name entries of the list: ORDER BY and HAVING.
	byAlias bool

	depth int // of the expression that is being compiled
	looks int // at conditions, for bounds of the key

	// grouping is set while expressions are compiled that see groups and not rows.
	grouping *grouping
}

func (c *compiler) query(parsed *parse.Query) (*Query, error) {
	if err := c.from(parsed.Table, parsed.Alias); err != nil {
		return nil, err
	}
	q := &Query{source: c.source, table: c.table, distinct: parsed.Distinct, limit: -1}
	if err := c.expandList(parsed.List); err != nil {
		return nil, err
	}
	if err := c.where(q, parsed.Where); err != nil {
		return nil, err
	}
	if err := c.group(q, parsed); err != nil {
		return nil, err
	}
	if err := c.selectList(q); err != nil {
		return nil, err
	}
	if err := c.having(q, parsed.Having); err != nil {
		return nil, err
	}
	if err := c.orderBy(q, parsed.Where, parsed.Order); err != nil {
		return nil, err
	}
	var err error
	if parsed.Limit != nil {
		if q.limit, err = c.count("LIMIT", parsed.Limit); err != nil {
			return nil, err
		}
	}
	if parsed.Offset != nil {
		if q.offset, err = c.count("OFFSET", parsed.Offset); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// from finds the one table.
func (c *compiler) from(name, alias spansql.ID) error {
	if name == "" {
		return nil
	}
	upper := strings.ToUpper(string(name))
	if strings.HasPrefix(upper, "INFORMATION_SCHEMA.") || strings.HasPrefix(upper, "SPANNER_SYS.") {
		return unimplemented(upper)
	}
	table, err := c.source.Table(string(name))
	if status.Code(err) == codes.NotFound {
		return invalid("Table not found: %s", name)
	}
	if err != nil {
		return err
	}
	c.table, c.alias = table, string(alias)
	if c.alias == "" {
		c.alias = table.Name
	}
	return nil
}

// expandList spells out the * of a SELECT list.
func (c *compiler) expandList(list []parse.Item) error {
	for _, item := range list {
		if !item.Star {
			c.list = append(c.list, item.Expr)
			c.aliases = append(c.aliases, item.Alias)
			continue
		}
		if c.table == nil {
			return invalid("SELECT * must have a FROM clause")
		}
		if item.Of != "" && !strings.EqualFold(string(item.Of), c.alias) {
			return invalid("Unrecognized name: %s", item.Of)
		}
		for i := range c.table.Columns {
			c.list = append(c.list, spansql.ID(c.table.Columns[i].Name))
			c.aliases = append(c.aliases, "")
		}
	}
	return nil
}

func (c *compiler) where(q *Query, where spansql.Expr) error {
	if c.table != nil {
		q.spans = []rows.Span{rows.All()}
	}
	if where == nil {
		return nil
	}
	if c.table == nil {
		return invalid("Query without FROM clause cannot have a WHERE clause")
	}
	condition, err := c.condition("WHERE clause", where)
	if err != nil {
		return err
	}
	q.where = condition
	q.spans = []rows.Span{c.keySpan([]spansql.Expr{where}, 0)}
	return nil
}

// condition compiles an expression that must be BOOL.
func (c *compiler) condition(clause string, e spansql.Expr) (*expr, error) {
	compiled, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	if compiled, err = compiled.to(rows.Bool); err != nil {
		return nil, invalid("%s expects type BOOL.", clause)
	}
	return compiled, nil
}

func (c *compiler) selectList(q *Query) error {
	c.grouping = q.grouping
	for i, item := range c.list {
		compiled, err := c.expr(item)
		if err != nil {
			return err
		}
		if compiled.array {
			return unimplemented("a result column of an ARRAY type")
		}
		kind := compiled.kind
		if kind == 0 {
			kind = rows.Int64 // a bare NULL has that type in the service
		}
		q.selected = append(q.selected, compiled)
		q.Columns = append(q.Columns, Column{Name: c.name(i), Kind: kind})
	}
	return nil
}

// name is the result column's name: the alias, the column's own, or none.
func (c *compiler) name(i int) string {
	if c.aliases[i] != "" {
		return string(c.aliases[i])
	}
	switch item := c.list[i].(type) {
	case spansql.ID:
		return string(item)
	case spansql.PathExp:
		return string(item[len(item)-1])
	default:
		return ""
	}
}

// listed finds what ORDER BY and GROUP BY may refer to in the SELECT list: an alias or a position. Anything else
// is answered as it is.
func (c *compiler) listed(e spansql.Expr) (item spansql.Expr, fromList bool, err error) {
	switch e := e.(type) {
	case spansql.IntegerLiteral:
		if e < 1 || int64(e) > int64(len(c.list)) {
			return nil, false, invalid("Position %d is not in the SELECT list.", e)
		}
		return c.list[e-1], true, nil
	case spansql.ID:
		if item := c.aliased(string(e)); item != nil {
			return item, true, nil
		}
	}
	return e, false, nil
}

// having compiles the condition on groups.
func (c *compiler) having(q *Query, having spansql.Expr) error {
	if having == nil {
		return nil
	}
	if q.grouping == nil {
		return invalid("The HAVING clause requires GROUP BY or aggregation to be present.")
	}
	c.byAlias = true
	defer func() { c.byAlias = false }()
	var err error
	q.having, err = c.condition("HAVING clause", having)
	return err
}

// aliased returns the entry of the SELECT list that has the alias, or nil. An alias hides a column of its name.
func (c *compiler) aliased(name string) spansql.Expr {
	for i, alias := range c.aliases {
		if alias != "" && strings.EqualFold(string(alias), name) {
			return c.list[i]
		}
	}
	return nil
}

func (c *compiler) orderBy(q *Query, where spansql.Expr, order []spansql.Order) error {
	if len(order) == 0 || q.grouping == nil && !q.distinct && c.keyOrder(where, order) {
		return nil
	}
	defer func() { c.byAlias = false }()
	for _, by := range order {
		item, fromList, err := c.listed(by.Expr)
		if err != nil {
			return err
		}
		if q.distinct && !c.inList(item) {
			return invalid("ORDER BY clause expression references %s which is not visible after SELECT DISTINCT.", item.SQL())
		}
		c.byAlias = !fromList // an entry of the list sees columns only
		compiled, err := c.expr(item)
		if err != nil {
			return err
		}
		if compiled.array {
			return invalid("ORDER BY does not support expressions of type %s.", compiled.typeName())
		}
		q.order = append(q.order, ordering{expr: compiled, desc: by.Desc})
	}
	return nil
}

func (c *compiler) inList(e spansql.Expr) bool {
	for _, item := range c.list {
		if c.same(item, e) {
			return true
		}
	}
	return false
}
