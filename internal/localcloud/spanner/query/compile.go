package query

import (
	"regexp"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// maxDepth bounds the operators that the compiler has to follow: deeper ones would overflow its stack, and no
// recover could save the process from that.
const maxDepth = 10_000

// Compile parses and checks a SELECT statement. Parameters are named without the @.
func Compile(source Source, sql string, params map[string]Param) (*Query, error) {
	if err := rows.CheckStatement(sql); err != nil {
		return nil, err
	}
	parsed, err := spansql.ParseQuery(sql)
	if err != nil {
		return nil, parseFailure(sql, err)
	}
	c := &compiler{source: source, params: params}
	return c.query(parsed)
}

func errTooDeep() error { return invalid("Query is too deeply nested.") }

// beyondParser are clauses that the parser has no grammar for and reports as a syntax error.
var beyondParser = regexp.MustCompile(`(?i)\b(HAVING|WITH|UNION|INTERSECT|EXCEPT|OVER|WINDOW|QUALIFY|PIVOT|UNPIVOT|INSERT|UPDATE|DELETE|CALL|GRAPH|JOIN|INFORMATION_SCHEMA|SPANNER_SYS)\b`)

func parseFailure(sql string, err error) error {
	if clause := beyondParser.FindString(sql); clause != "" {
		return unimplemented(strings.ToUpper(clause))
	}
	if rest, ok := strings.CutPrefix(err.Error(), "unexpected trailing query contents "); ok {
		return unimplemented("what follows from " + rest) // for example an alias without AS
	}
	return invalid("Syntax error: %v", err)
}

// compiler turns the parts of one statement into closures.
type compiler struct {
	source Source
	params map[string]Param
	table  *rows.Table
	alias  string

	list    []spansql.Expr // the SELECT list, with * spelled out
	aliases []spansql.ID   // of the list; empty where there is none

	depth int // of the expression that is being compiled

	// grouping is set while expressions are compiled that see groups and not rows.
	grouping *grouping
}

func (c *compiler) query(parsed spansql.Query) (*Query, error) {
	sel := parsed.Select
	if err := c.from(sel); err != nil {
		return nil, err
	}
	q := &Query{source: c.source, table: c.table, distinct: sel.Distinct, limit: -1}
	if err := c.expandList(sel); err != nil {
		return nil, err
	}
	if err := c.where(q, sel.Where); err != nil {
		return nil, err
	}
	if err := c.group(q, sel, parsed.Order); err != nil {
		return nil, err
	}
	if err := c.selectList(q); err != nil {
		return nil, err
	}
	if err := c.orderBy(q, sel, parsed.Order); err != nil {
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
func (c *compiler) from(sel spansql.Select) error {
	switch {
	case sel.AsStruct:
		return unimplemented("SELECT AS STRUCT")
	case len(sel.From) == 0:
		return nil
	case len(sel.From) > 1:
		return unimplemented("a join")
	}
	for _, sample := range sel.TableSamples {
		if sample != nil {
			return unimplemented("TABLESAMPLE")
		}
	}
	switch from := sel.From[0].(type) {
	case spansql.SelectFromTable:
		if strings.HasPrefix(strings.ToUpper(string(from.Table)), "INFORMATION_SCHEMA") || strings.HasPrefix(strings.ToUpper(string(from.Table)), "SPANNER_SYS") {
			return unimplemented(string(from.Table))
		}
		table, err := c.source.Table(string(from.Table))
		if status.Code(err) == codes.NotFound {
			return invalid("Table not found: %s", from.Table)
		}
		if err != nil {
			return err
		}
		c.table, c.alias = table, string(from.Alias)
		if c.alias == "" {
			c.alias = table.Name
		}
		return nil
	case spansql.SelectFromJoin:
		return unimplemented("a join")
	case spansql.SelectFromUnnest:
		return unimplemented("UNNEST in FROM")
	default:
		return unimplemented("this FROM clause")
	}
}

// expandList spells out the * of a SELECT list.
func (c *compiler) expandList(sel spansql.Select) error {
	for i, item := range sel.List {
		if item != spansql.Star {
			c.list = append(c.list, item)
			alias := spansql.ID("")
			if sel.ListAliases != nil {
				alias = sel.ListAliases[i]
			}
			c.aliases = append(c.aliases, alias)
			continue
		}
		if c.table == nil {
			return invalid("SELECT * must have a FROM clause")
		}
		for i := range c.table.Columns {
			c.list = append(c.list, spansql.ID(c.table.Columns[i].Name))
			c.aliases = append(c.aliases, "")
		}
	}
	return nil
}

func (c *compiler) where(q *Query, where spansql.BoolExpr) error {
	if c.table != nil {
		q.spans = []rows.Span{rows.All()}
	}
	if where == nil {
		return nil
	}
	condition, err := c.condition("WHERE clause", where)
	if err != nil {
		return err
	}
	q.where = condition
	if c.table != nil {
		q.spans = []rows.Span{c.keySpan([]spansql.Expr{where}, 0)}
	}
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

// listed finds what ORDER BY and GROUP BY may refer to in the SELECT list: an alias or a position.
func (c *compiler) listed(e spansql.Expr) (spansql.Expr, error) {
	switch e := e.(type) {
	case spansql.IntegerLiteral:
		if e < 1 || int64(e) > int64(len(c.list)) {
			return nil, invalid("Position %d is not in the SELECT list.", e)
		}
		return c.list[e-1], nil
	case spansql.ID:
		for i, alias := range c.aliases {
			if alias != "" && strings.EqualFold(string(alias), string(e)) {
				return c.list[i], nil
			}
		}
	}
	return e, nil
}

func (c *compiler) orderBy(q *Query, sel spansql.Select, order []spansql.Order) error {
	if len(order) == 0 || q.grouping == nil && !sel.Distinct && c.keyOrder(sel.Where, order) {
		return nil
	}
	for _, by := range order {
		item, err := c.listed(by.Expr)
		if err != nil {
			return err
		}
		if sel.Distinct && !c.inList(item) {
			return invalid("ORDER BY clause expression references %s which is not visible after SELECT DISTINCT.", item.SQL())
		}
		compiled, err := c.expr(item)
		if err != nil {
			return err
		}
		q.order = append(q.order, ordering{expr: compiled, desc: by.Desc})
	}
	return nil
}

func (c *compiler) inList(e spansql.Expr) bool {
	for _, item := range c.list {
		if sameSQL(item, e) {
			return true
		}
	}
	return false
}

func sameSQL(a, b spansql.Expr) bool { return strings.EqualFold(a.SQL(), b.SQL()) }
