package rows

import (
	"slices"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// index is a secondary index. Only its cost is kept: queries here find their rows without it, and a read
// that names one is refused.
type index struct {
	name      string
	table     string   // lower case
	columns   []string // lower case: those of its key, then those that it stores
	keys      int      // how many of the columns are its key
	statement *spansql.CreateIndex
}

// entries counts the changes of the index when a row changes, as the service counts them: an entry that comes or
// goes is one, and one that moves, because its key changes, is two. Rows are given by slot; nil is none.
func (x *index) entries(table *Table, before, after []any) int64 {
	var was, is []any
	stored := false // whether a column that the index only stores has changed
	for i, name := range x.columns {
		column, err := table.Column(name)
		if err != nil {
			continue // a column of an index cannot be dropped
		}
		slot := table.Columns[column].slot
		switch {
		case i < x.keys:
			was, is = appendCellOf(was, before, slot), appendCellOf(is, after, slot)
		case before != nil && after != nil:
			stored = stored || Compare(before[slot], after[slot]) != 0
		}
	}
	had := before != nil && x.holds(was)
	has := after != nil && x.holds(is)
	switch {
	case had && has && slices.EqualFunc(was, is, func(a, b any) bool { return Compare(a, b) == 0 }):
		return int64(boolRank(stored))
	default:
		return int64(boolRank(had) + boolRank(has))
	}
}

func appendCellOf(cells, row []any, slot int) []any {
	if row == nil {
		return cells
	}
	return append(cells, row[slot])
}

// holds reports whether the index has an entry for a row with these key cells.
func (x *index) holds(cells []any) bool {
	return !x.statement.NullFiltered || !slices.Contains(cells, nil)
}

// checkKey refuses a row whose key in the index, which ends with the row's own, is too long.
func (x *index) checkKey(table *Table, row []any) error {
	if row == nil {
		return nil
	}
	size := table.keyBytes(row)
	for _, name := range x.columns[:x.keys] {
		if column, err := table.Column(name); err == nil {
			size += cellSize(row[table.Columns[column].slot])
		}
	}
	if size > MaxKeyBytes {
		return status.Errorf(codes.InvalidArgument, "Number of bytes for key of index %s is %d which exceeds the maximum of %d.", x.name, size, MaxKeyBytes)
	}
	return nil
}

// of returns the indexes of a table.
func (s *schema) of(table *Table) []*index {
	var list []*index
	for _, index := range s.indexes {
		if index.table == strings.ToLower(table.Name) {
			list = append(list, index)
		}
	}
	return list
}

func (s *schema) createIndex(statement *spansql.CreateIndex) error {
	switch {
	case s.taken(statement.Name) && statement.IfNotExists:
		return nil
	case s.taken(statement.Name):
		return status.Errorf(codes.FailedPrecondition, "Duplicate name in schema: %s.", statement.Name)
	case statement.Unique:
		return status.Errorf(codes.Unimplemented, "Index %s: localcloud does not support UNIQUE.", statement.Name)
	case statement.Interleave != "":
		return status.Errorf(codes.Unimplemented, "Index %s: localcloud does not support INTERLEAVE IN.", statement.Name)
	}
	if err := checkName("Index", statement.Name); err != nil {
		return err
	}
	table, err := s.table(string(statement.Table))
	if err != nil {
		return err
	}
	created := &index{name: string(statement.Name), table: strings.ToLower(table.Name), statement: statement}
	for _, part := range statement.Columns {
		if _, err := table.Column(string(part.Column)); err != nil {
			return err
		}
		created.columns = append(created.columns, strings.ToLower(string(part.Column)))
	}
	created.keys = len(created.columns)
	for _, stored := range statement.Storing {
		if _, err := table.Column(string(stored)); err != nil {
			return err
		}
		created.columns = append(created.columns, strings.ToLower(string(stored)))
	}
	s.indexes = append(s.indexes, created)
	return nil
}

func (s *schema) dropIndex(statement *spansql.DropIndex) error {
	i := s.findIndex(statement.Name)
	if i < 0 {
		if statement.IfExists {
			return nil
		}
		return status.Errorf(codes.NotFound, "Index not found: %s", statement.Name)
	}
	s.indexes = slices.Delete(s.indexes, i, i+1)
	return nil
}

func (s *schema) findIndex(name spansql.ID) int {
	return slices.IndexFunc(s.indexes, func(index *index) bool { return strings.EqualFold(index.name, string(name)) })
}
