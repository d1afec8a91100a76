package rows

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The limits of the service for a table.
const (
	maxColumns    = 1024
	maxKeyColumns = 16
	maxName       = 128 // characters
)

// names is the service's rule for the names of tables, columns and indexes.
var names = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

func checkName(what string, name spansql.ID) error {
	if len(name) > maxName || !names.MatchString(string(name)) {
		return status.Errorf(codes.InvalidArgument, "%s name not valid: %s.", what, name)
	}
	return nil
}

// Column is a column of a table. It never changes once its table is in use.
type Column struct {
	Name    string
	Kind    Kind
	NotNull bool
	// MaxLen bounds STRING in characters and BYTES in bytes; 0 means MAX.
	MaxLen int64
	// CommitTimestamp allows the commit's own timestamp as the value, and refuses later ones.
	CommitTimestamp bool
	// slot is the column's place in stored rows; the slot of a dropped column is not used again.
	slot int
}

// KeyPart is one column of a primary key.
type KeyPart struct {
	Column int // index into Table.Columns
	Desc   bool
}

// Table is the shape of a table at one time. A change of the schema makes a new Table, so a reader can keep
// the one it has.
type Table struct {
	Name    string
	Columns []Column
	Key     []KeyPart

	statement *spansql.CreateTable // as GetDatabaseDdl shows it
	slots     int                  // cells of a stored row, dropped columns included
	data      *versions
}

// Column returns the index of the named column, or NOT_FOUND. Names match without regard to case, as in Spanner.
func (t *Table) Column(name string) (int, error) {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return i, nil
		}
	}
	return 0, status.Errorf(codes.NotFound, "Column not found in table %s: %s", t.Name, name)
}

// keyOf encodes the primary key of a row given by column.
func (t *Table) keyOf(row []any) string {
	key := make([]byte, 0, 64)
	for _, part := range t.Key {
		key = appendKeyPart(key, row[t.Columns[part.Column].slot], part.Desc)
	}
	return string(key)
}

// keyBytes is the size of the primary key of a row, given by slot, as the limit of the service sees it.
func (t *Table) keyBytes(row []any) int64 {
	var size int64
	for _, part := range t.Key {
		size += cellSize(row[t.Columns[part.Column].slot])
	}
	return size
}

// EncodePrefix encodes the first len(values) parts of a primary key.
func (t *Table) EncodePrefix(values []any) string {
	key := make([]byte, 0, 64)
	for i, value := range values {
		key = appendKeyPart(key, value, t.Key[i].Desc)
	}
	return string(key)
}

// tableFrom checks a CREATE TABLE and builds the table it declares.
func tableFrom(statement *spansql.CreateTable) (*Table, error) {
	if err := refuseUnsupported(statement); err != nil {
		return nil, err
	}
	if err := checkName("Table", statement.Name); err != nil {
		return nil, err
	}
	table := &Table{Name: string(statement.Name), statement: statement, data: newVersions()}
	for _, def := range statement.Columns {
		if err := table.addColumn(def); err != nil {
			return nil, err
		}
	}
	if len(table.Columns) > maxColumns {
		return nil, status.Errorf(codes.FailedPrecondition, "Table %s has too many columns; the limit is %d.", table.Name, maxColumns)
	}
	if len(statement.PrimaryKey) > maxKeyColumns {
		return nil, status.Errorf(codes.InvalidArgument, "Table %s has too many keys (%d); the limit is %d.", table.Name, len(statement.PrimaryKey), maxKeyColumns)
	}
	for _, part := range statement.PrimaryKey {
		i, err := table.Column(string(part.Column))
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "Table %s references nonexistent key column %s.", table.Name, part.Column)
		}
		if slices.ContainsFunc(table.Key, func(other KeyPart) bool { return other.Column == i }) {
			return nil, status.Errorf(codes.InvalidArgument, "Key column %s is listed twice in the primary key of table %s.", part.Column, table.Name)
		}
		table.Key = append(table.Key, KeyPart{Column: i, Desc: part.Desc})
	}
	return table, nil
}

// refuseUnsupported names what this table declares and localcloud does not enforce: a table that silently
// lacks its constraints would be a wrong answer.
func refuseUnsupported(statement *spansql.CreateTable) error {
	unsupported := ""
	switch {
	case statement.Interleave != nil:
		unsupported = "INTERLEAVE IN PARENT"
	case statement.RowDeletionPolicy != nil:
		unsupported = "ROW DELETION POLICY"
	case len(statement.Constraints) > 0:
		unsupported = "CONSTRAINT, FOREIGN KEY and CHECK"
	case statement.Synonym != "":
		unsupported = "SYNONYM"
	default:
		return nil
	}
	return status.Errorf(codes.Unimplemented, "Table %s: localcloud does not support %s.", statement.Name, unsupported)
}

// addColumn appends a column in a slot of its own.
func (t *Table) addColumn(def spansql.ColumnDef) error {
	if err := checkName("Column", def.Name); err != nil {
		return err
	}
	if _, err := t.Column(string(def.Name)); err == nil {
		return status.Errorf(codes.FailedPrecondition, "Duplicate column name %s.%s.", t.Name, def.Name)
	}
	if def.Default != nil || def.Generated != nil || def.Hidden {
		return status.Errorf(codes.Unimplemented, "Column %s.%s: localcloud does not support DEFAULT, generated and HIDDEN columns.", t.Name, def.Name)
	}
	kind, err := kindOf(def.Type)
	if err != nil {
		return err
	}
	column := Column{Name: string(def.Name), Kind: kind, NotNull: def.NotNull, slot: t.slots}
	if (kind == String || kind == Bytes) && def.Type.Len != spansql.MaxLen {
		most := int64(MaxStringChars)
		if kind == Bytes {
			most = MaxCellBytes
		}
		if def.Type.Len < 1 || def.Type.Len > most {
			return status.Errorf(codes.InvalidArgument, "Bad length for column %s.%s: %d : Allowed length range: [1, %d].", t.Name, def.Name, def.Type.Len, most)
		}
		column.MaxLen = def.Type.Len
	}
	if allow := def.Options.AllowCommitTimestamp; allow != nil && *allow {
		if kind != Timestamp {
			return status.Errorf(codes.FailedPrecondition, "Option allow_commit_timestamp is only allowed on TIMESTAMP columns, not on %s.%s.", t.Name, def.Name)
		}
		column.CommitTimestamp = true
	}
	t.Columns = append(t.Columns, column)
	t.slots++
	return nil
}

// describeKey shows the primary key of a row, given by slot, as the service does in its errors.
func (t *Table) describeKey(row []any) string {
	parts := make([]string, len(t.Key))
	for i, part := range t.Key {
		parts[i] = fmt.Sprint(row[t.Columns[part.Column].slot])
	}
	return "[" + strings.Join(parts, ",") + "]"
}
