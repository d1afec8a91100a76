package query

import (
	"context"
	"slices"
	"time"

	"cloud.google.com/go/spanner/spansql"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// Change is a compiled INSERT, UPDATE or DELETE.
type Change struct {
	Table *rows.Table
	// Spans are what the statement reads; none for an INSERT, whose keys show when it is planned.
	Spans []rows.Span

	verb    parse.Verb
	find    *Query // of the rows that WHERE lets through
	columns []int
	values  [][]*expr // nil stands for the timestamp of the commit
}

// CompileChange parses and checks an INSERT, UPDATE or DELETE statement.
func CompileChange(source Source, sql string, params map[string]Param) (*Change, error) {
	parsed, err := parse.DML(sql)
	if err != nil {
		return nil, err
	}
	c := &compiler{source: source, params: lowerNames(params), now: time.Now().UTC()}
	if err := c.from(parsed.Table, parsed.Alias); err != nil {
		return nil, err
	}
	change := &Change{Table: c.table, verb: parsed.Verb}
	if err := change.findColumns(parsed.Columns); err != nil {
		return nil, err
	}
	if parsed.Verb == parse.Insert || parsed.Verb == parse.InsertOrUpdate {
		c.table = nil // VALUES see no row
	} else {
		change.find = &Query{source: source, table: c.table}
		if err := c.where(change.find, parsed.Where); err != nil {
			return nil, err
		}
		change.Spans = change.find.spans
	}
	for _, row := range parsed.Rows {
		compiled, err := c.assignments(change, row)
		if err != nil {
			return nil, err
		}
		change.values = append(change.values, compiled)
	}
	return change, nil
}

func (ch *Change) findColumns(names []spansql.ID) error {
	for _, name := range names {
		i, err := ch.Table.Column(string(name))
		if err != nil {
			return invalid("Column %s is not present in table %s", name, ch.Table.Name)
		}
		if slices.Contains(ch.columns, i) {
			return invalid("Column %s is named twice.", name)
		}
		if ch.verb == parse.Update && ch.isKey(i) {
			return invalid("Cannot UPDATE value on non-writable column: %s", name)
		}
		ch.columns = append(ch.columns, i)
	}
	return nil
}

func (ch *Change) isKey(column int) bool {
	return slices.ContainsFunc(ch.Table.Key, func(part rows.KeyPart) bool { return part.Column == column })
}

// assignments compiles one row of values for the columns.
func (c *compiler) assignments(change *Change, row []spansql.Expr) ([]*expr, error) {
	compiled := make([]*expr, len(row))
	for i, value := range row {
		column := change.Table.Columns[change.columns[i]]
		if call, ok := bare(value).(spansql.Func); ok && call.Name == "PENDING_COMMIT_TIMESTAMP" && len(call.Args) == 0 {
			if column.Kind != rows.Timestamp {
				return nil, invalid("PENDING_COMMIT_TIMESTAMP() cannot be assigned to column %s of type %s.", column.Name, column.Kind)
			}
			continue
		}
		x, err := c.expr(value)
		if err != nil {
			return nil, err
		}
		if compiled[i], err = x.to(column.Kind); err != nil {
			return nil, invalid("Value of type %s cannot be assigned to %s, which has type %s.", x.typeName(), column.Name, column.Kind)
		}
	}
	return compiled, nil
}

// Planned is what a statement does to one row.
type Planned struct {
	Key      string // encoded; empty for an INSERT whose key is not known before the commit, or not complete
	Mutation rows.Mutation
}

// IsInsert reports whether the statement makes rows and fails where they are there already.
func (ch *Change) IsInsert() bool { return ch.verb == parse.Insert }

// Finds reports whether the statement changes rows that it has to find first.
func (ch *Change) Finds() bool { return ch.find != nil }

// Plan returns what the statement does to the rows as they are at the timestamp.
func (ch *Change) Plan(ctx context.Context, timestamp int64) ([]Planned, error) {
	if ch.find == nil {
		return ch.planInsert()
	}
	var plan []Planned
	columns := make([]int, 0, len(ch.Table.Key)+len(ch.columns))
	for _, part := range ch.Table.Key {
		columns = append(columns, part.Column)
	}
	columns = append(columns, ch.columns...)
	err := ch.find.scan(ctx, timestamp, func(e *env) error {
		key := make([]any, len(ch.Table.Key))
		for i, part := range ch.Table.Key {
			key[i] = e.row[part.Column]
		}
		planned := Planned{Key: ch.Table.EncodePrefix(key)}
		if ch.verb == parse.Delete {
			planned.Mutation = rows.Mutation{Op: rows.Delete, Table: ch.Table, Keys: []string{planned.Key}}
		} else {
			cells, err := evaluate(ch.values[0], e)
			if err != nil {
				return err
			}
			planned.Mutation = rows.Mutation{Op: rows.Update, Table: ch.Table, Columns: columns, Rows: [][]any{append(key, cells...)}}
		}
		plan = append(plan, planned)
		return nil
	})
	return plan, err
}

func (ch *Change) planInsert() ([]Planned, error) {
	op := rows.InsertOrUpdate
	if ch.verb == parse.Insert {
		op = rows.Insert
	}
	plan := make([]Planned, 0, len(ch.values))
	for _, values := range ch.values {
		cells, err := evaluate(values, &env{})
		if err != nil {
			return nil, err
		}
		plan = append(plan, Planned{
			Key:      ch.insertKey(cells),
			Mutation: rows.Mutation{Op: op, Table: ch.Table, Columns: ch.columns, Rows: [][]any{cells}},
		})
	}
	return plan, nil
}

func (ch *Change) insertKey(cells []any) string {
	key := make([]any, len(ch.Table.Key))
	for i, part := range ch.Table.Key {
		at := slices.Index(ch.columns, part.Column)
		if at < 0 {
			return ""
		}
		if _, pending := cells[at].(rows.PendingCommitTimestamp); pending {
			return ""
		}
		key[i] = cells[at]
	}
	return ch.Table.EncodePrefix(key)
}

func evaluate(values []*expr, e *env) ([]any, error) {
	cells := make([]any, len(values))
	for i, value := range values {
		if value == nil {
			cells[i] = rows.PendingCommitTimestamp{}
			continue
		}
		var err error
		if cells[i], err = value.eval(e); err != nil {
			return nil, err
		}
	}
	return cells, nil
}
