package spanner

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// Group is how many rows of a table agree in the columns that they are counted by.
type Group struct {
	Database string
	Values   []string // one a column; NULL and what is no STRING are empty
	Rows     int64
}

// CountRows counts the rows of the named table by the values of the columns, in each database that has such a
// table, ordered by database and values. It reads everything, as a client with a query would: a commit waits for
// a short stretch of it at most. Once there are limit groups the rows of further ones are left out, and complete
// is false.
func (s *Service) CountRows(ctx context.Context, table string, by []string, limit int) (groups []Group, complete bool, err error) {
	s.mu.Lock()
	databases := maps.Clone(s.databases)
	s.mu.Unlock()
	complete = true
	for _, name := range slices.Sorted(maps.Keys(databases)) {
		counted, all, err := countRows(ctx, databases[name].rows, table, by, limit-len(groups))
		if err != nil {
			return nil, false, err
		}
		complete = complete && all
		for i := range counted {
			counted[i].Database = name
		}
		groups = append(groups, counted...)
	}
	return groups, complete, nil
}

// countRows counts in one database. One without the table or its columns has no groups.
func countRows(ctx context.Context, db engine, name string, by []string, limit int) (groups []Group, complete bool, err error) {
	table, err := db.Table(name)
	if err != nil {
		return nil, true, nil //nolint:nilerr // there is nothing to count
	}
	columns := make([]int, len(by))
	for i, column := range by {
		if columns[i], err = table.Column(column); err != nil {
			return nil, true, nil //nolint:nilerr // it is a table of another shape
		}
	}
	complete = true
	counts := map[string]*Group{}
	var key []byte
	err = db.Scan(ctx, table, []rows.Span{rows.All()}, db.StrongTimestamp(), func(row []any) (bool, error) {
		key = key[:0]
		for _, column := range columns {
			value, _ := row[column].(string)
			key = append(append(key, value...), 0)
		}
		group := counts[string(key)]
		switch {
		case group != nil:
		case len(counts) >= limit:
			complete = false
			return true, nil
		default:
			group = &Group{}
			for _, column := range columns {
				value, _ := row[column].(string)
				group.Values = append(group.Values, strings.Clone(value)) // the row's memory is not kept
			}
			counts[string(key)] = group
		}
		group.Rows++
		return true, nil
	})
	if err != nil {
		return nil, false, err
	}
	for _, group := range counts {
		groups = append(groups, *group)
	}
	slices.SortFunc(groups, func(a, b Group) int { return slices.Compare(a.Values, b.Values) })
	return groups, complete, nil
}
