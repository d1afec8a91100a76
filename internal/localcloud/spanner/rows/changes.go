package rows

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// change is what a commit makes of one row: its cells by slot, or nil to remove it.
type change struct {
	table *Table
	key   string
	row   []any
}

// changeSet gathers what the mutations of one commit do, in order, so that a later one sees an earlier one
// and a failing one leaves nothing behind.
type changeSet struct {
	at      int64
	schema  *schema
	list    []change
	entries int64 // changes of indexes
	// byKey finds a row in the list. It is made at the second change: most commits that matter for speed have one.
	byKey map[*versions]map[string]int
}

func (cs *changeSet) add(m *Mutation) error {
	if m.Op == Delete {
		for _, key := range m.Keys {
			if err := cs.removeKey(m.Table, key); err != nil {
				return err
			}
		}
		for _, span := range m.Spans {
			if err := cs.remove(m.Table, span); err != nil {
				return err
			}
		}
		return nil
	}
	for _, row := range m.Rows {
		if err := cs.write(m, row); err != nil {
			return err
		}
	}
	return nil
}

func (cs *changeSet) write(m *Mutation, values []any) error {
	row := make([]any, m.Table.slots)
	for i, value := range values {
		if _, pending := value.(PendingCommitTimestamp); pending {
			value = time.UnixMicro(cs.at).UTC()
		}
		row[m.Table.Columns[m.Columns[i]].slot] = value
	}
	if size := m.Table.keyBytes(row); size > MaxKeyBytes {
		return status.Errorf(codes.InvalidArgument, "Number of bytes for key of table %s is %d which exceeds the maximum of %d.", m.Table.Name, size, MaxKeyBytes)
	}
	key := m.Table.keyOf(row)
	existing, err := cs.current(m.Table, key)
	if err != nil {
		return err
	}
	switch {
	case m.Op == Insert && existing != nil:
		return status.Errorf(codes.AlreadyExists, "Row %s in table %s already exists", m.Table.describeKey(row), m.Table.Name)
	case m.Op == Update && existing == nil:
		return status.Errorf(codes.NotFound, "Row %s in table %s is missing. Row cannot be updated.", m.Table.describeKey(row), m.Table.Name)
	case existing != nil && m.Op != Replace:
		written := row
		row = slices.Clone(existing)
		for _, column := range m.Columns {
			slot := m.Table.Columns[column].slot
			row[slot] = written[slot]
		}
	}
	return cs.change(m.Table, key, existing, row)
}

// change notes what becomes of a row, and counts what that means for the indexes. before and after are its cells
// by slot, nil for no row.
func (cs *changeSet) change(table *Table, key string, before, after []any) error {
	for _, index := range cs.schema.of(table) {
		if err := index.checkKey(table, after); err != nil {
			return err
		}
		cs.entries += index.entries(table, before, after)
	}
	cs.set(change{table: table, key: key, row: after})
	return nil
}

// removeKey deletes a row if it is there.
func (cs *changeSet) removeKey(table *Table, key string) error {
	if len(cs.schema.indexes) == 0 {
		cs.set(change{table: table, key: key})
		return nil
	}
	existing, err := cs.current(table, key)
	if err != nil {
		return err
	}
	return cs.change(table, key, existing, nil)
}

// current returns the cells of the row as they stand with the changes so far, nil if there is none. They must not
// be changed.
func (cs *changeSet) current(table *Table, key string) ([]any, error) {
	if i, ok := cs.find(table, key); ok {
		return cs.list[i].row, nil
	}
	stored := table.data.latest(key)
	if stored == nil {
		return nil, nil
	}
	row := make([]any, table.slots)
	if err := decodeRow(stored.row, row); err != nil {
		return nil, status.Errorf(codes.DataLoss, "table %s: %v", table.Name, err)
	}
	return row, nil
}

// remove deletes the rows of a span, those of this commit included.
func (cs *changeSet) remove(table *Table, span Span) error {
	var keys []string
	for i := range cs.list {
		if c := &cs.list[i]; c.table.data == table.data && c.row != nil && span.From <= c.key && c.key < span.To {
			keys = append(keys, c.key)
		}
	}
	table.data.ascend(span, func(key string, v *version) bool {
		if _, changed := cs.find(table, key); v.live && !changed {
			keys = append(keys, key)
		}
		return true
	})
	for _, key := range keys {
		if err := cs.removeKey(table, key); err != nil {
			return err
		}
	}
	return nil
}

func (cs *changeSet) find(table *Table, key string) (int, bool) {
	if cs.byKey == nil {
		if len(cs.list) == 0 {
			return 0, false
		}
		cs.byKey = map[*versions]map[string]int{}
		for i, c := range cs.list {
			cs.remember(c, i)
		}
	}
	i, ok := cs.byKey[table.data][key]
	return i, ok
}

func (cs *changeSet) set(c change) {
	if i, ok := cs.find(c.table, c.key); ok {
		cs.list[i] = c
		return
	}
	cs.list = append(cs.list, c)
	if cs.byKey != nil {
		cs.remember(c, len(cs.list)-1)
	}
}

func (cs *changeSet) remember(c change, i int) {
	rows, ok := cs.byKey[c.table.data]
	if !ok {
		rows = map[string]int{}
		cs.byKey[c.table.data] = rows
	}
	rows[c.key] = i
}
