package rows

import (
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The commit limits of the service (https://cloud.google.com/spanner/quotas).
const (
	MaxMutations   = 80_000
	MaxCommitBytes = 100 << 20
	MaxCellBytes   = 10 << 20
	MaxStringChars = 2_621_440
	MaxKeyBytes    = 8 << 10
)

// Op is what a mutation does with its rows.
type Op uint8

// The mutation kinds of the API.
const (
	Insert Op = iota + 1
	Update
	InsertOrUpdate
	Replace
	Delete
)

// Mutation changes rows of one table.
type Mutation struct {
	Op    Op
	Table *Table
	// Columns are indexes into Table.Columns, and Rows has a value for each of them. Not for Delete.
	Columns []int
	Rows    [][]any
	// Keys and Spans are what to remove. Only for Delete.
	Keys  []string
	Spans []Span
}

// Check refuses what no state of the rows could make right. now bounds the timestamps of columns that take the
// commit's own.
func (m *Mutation) Check(now time.Time) error {
	if m.Op == Delete {
		return nil
	}
	if err := m.checkColumns(); err != nil {
		return err
	}
	for _, row := range m.Rows {
		if len(row) != len(m.Columns) {
			return status.Errorf(codes.InvalidArgument, "Mutation has %d columns and a row of %d values for table %s.", len(m.Columns), len(row), m.Table.Name)
		}
		for i, value := range row {
			if err := m.Table.checkCell(&m.Table.Columns[m.Columns[i]], value, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkColumns demands each column once, the whole key, and for a row that may be new every NOT NULL column.
func (m *Mutation) checkColumns() error {
	for i, column := range m.Columns {
		if slices.Contains(m.Columns[:i], column) {
			return status.Errorf(codes.InvalidArgument, "Multiple values for column %s.%s.", m.Table.Name, m.Table.Columns[column].Name)
		}
	}
	for _, part := range m.Table.Key {
		if !slices.Contains(m.Columns, part.Column) {
			return status.Errorf(codes.FailedPrecondition, "Mutation for table %s does not specify the primary key column %s.",
				m.Table.Name, m.Table.Columns[part.Column].Name)
		}
	}
	if m.Op == Update {
		return nil
	}
	for i := range m.Table.Columns {
		if m.Table.Columns[i].NotNull && !slices.Contains(m.Columns, i) {
			return status.Errorf(codes.FailedPrecondition, "A new row in table %s does not specify a non-null value for NOT NULL column: %s",
				m.Table.Name, m.Table.Columns[i].Name)
		}
	}
	return nil
}

func (t *Table) checkCell(column *Column, value any, now time.Time) error {
	switch v := value.(type) {
	case nil:
		if column.NotNull {
			return status.Errorf(codes.FailedPrecondition, "%s must not be NULL in table %s.", column.Name, t.Name)
		}
	case string:
		if !utf8.ValidString(v) {
			return status.Errorf(codes.InvalidArgument, "Invalid UTF-8 in the value for column %s in table %s.", column.Name, t.Name)
		}
		limit := column.MaxLen
		if limit == 0 {
			limit = MaxStringChars
		}
		if size := int64(utf8.RuneCountInString(v)); size > limit {
			return t.tooLarge(column, size, limit)
		}
		if len(v) > MaxCellBytes {
			return t.tooLarge(column, int64(len(v)), MaxCellBytes)
		}
	case []byte:
		limit := column.MaxLen
		if limit == 0 {
			limit = MaxCellBytes
		}
		if size := int64(len(v)); size > limit {
			return t.tooLarge(column, size, limit)
		}
	case PendingCommitTimestamp:
		if !column.CommitTimestamp {
			return status.Errorf(codes.FailedPrecondition,
				"Cannot write commit timestamp because the allow_commit_timestamp column option is not set to true for column %s in table %s.", column.Name, t.Name)
		}
	case time.Time:
		if v.Before(minTimestamp) || v.After(maxTimestamp) {
			return status.Errorf(codes.InvalidArgument, "Invalid value for column %s in table %s: Timestamp out of range.", column.Name, t.Name)
		}
		if column.CommitTimestamp && v.After(now) {
			return status.Errorf(codes.FailedPrecondition, "Cannot write timestamps in the future %s, current time is %s.",
				v.Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
		}
	}
	return nil
}

func (t *Table) tooLarge(column *Column, size, limit int64) error {
	return status.Errorf(codes.FailedPrecondition,
		"New value exceeds the maximum size limit for this column in this table: %s.%s, size: %d, limit: %d.", t.Name, column.Name, size, limit)
}

// weigh returns the mutation's count and bytes as the service's limits see them, without the entries of indexes:
// one for a cell, one for a deleted row or range.
func (m *Mutation) weigh() (count, size int64) {
	if m.Op == Delete {
		for _, key := range m.Keys {
			size += int64(len(key))
		}
		return int64(len(m.Keys) + len(m.Spans)), size
	}
	for _, row := range m.Rows {
		for _, value := range row {
			size += cellSize(value)
		}
	}
	return int64(len(m.Rows)) * int64(len(m.Columns)), size
}

func cellSize(value any) int64 {
	switch v := value.(type) {
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	default:
		return 8
	}
}
