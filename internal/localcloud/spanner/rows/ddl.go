package rows

import (
	"slices"
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ApplyDDL applies the statements in order and stops at the first that fails; the ones before it stay, as in
// the service. What localcloud does not support is UNIMPLEMENTED, with its name.
func (db *DB) ApplyDDL(statements []string) error {
	parsed := make([]spansql.DDLStmt, 0, len(statements))
	for _, text := range statements {
		statement, err := ParseDDL(text)
		if err != nil {
			return err
		}
		parsed = append(parsed, statement)
	}
	for _, statement := range parsed {
		if err := db.applyDDL(statement); err != nil {
			return err
		}
	}
	return nil
}

// DDL returns the statements that make the schema as it stands.
func (db *DB) DDL() []string {
	db.mu.RLock()
	defer db.mu.RUnlock()
	var statements []string
	for _, name := range db.schema.order {
		statements = append(statements, db.schema.tables[name].statement.SQL())
	}
	for _, index := range db.schema.indexes {
		statements = append(statements, index.statement.SQL())
	}
	return statements
}

func (db *DB) applyDDL(statement spansql.DDLStmt) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch statement := statement.(type) {
	case *spansql.CreateTable:
		return db.schema.createTable(statement)
	case *spansql.DropTable:
		return db.schema.dropTable(statement)
	case *spansql.AlterTable:
		return db.schema.alterTable(statement)
	case *spansql.CreateIndex:
		return db.schema.createIndex(statement)
	case *spansql.DropIndex:
		return db.schema.dropIndex(statement)
	default:
		return status.Errorf(codes.Unimplemented, "localcloud does not support the DDL statement: %s", statement.SQL())
	}
}

// taken reports whether a table or index has the name; they share one space of names.
func (s *schema) taken(name spansql.ID) bool {
	if _, ok := s.tables[strings.ToLower(string(name))]; ok {
		return true
	}
	return s.findIndex(name) >= 0
}

func (s *schema) createTable(statement *spansql.CreateTable) error {
	if s.taken(statement.Name) {
		if statement.IfNotExists {
			return nil
		}
		return status.Errorf(codes.FailedPrecondition, "Duplicate name in schema: %s.", statement.Name)
	}
	table, err := tableFrom(statement)
	if err != nil {
		return err
	}
	lower := strings.ToLower(table.Name)
	s.tables[lower] = table
	s.order = append(s.order, lower)
	return nil
}

func (s *schema) dropTable(statement *spansql.DropTable) error {
	lower := strings.ToLower(string(statement.Name))
	if _, ok := s.tables[lower]; !ok {
		if statement.IfExists {
			return nil
		}
		return status.Errorf(codes.NotFound, "Table not found: %s", statement.Name)
	}
	for _, index := range s.indexes {
		if index.table == lower {
			return status.Errorf(codes.FailedPrecondition, "Cannot drop table %s with indices: %s.", statement.Name, index.name)
		}
	}
	delete(s.tables, lower)
	s.order = slices.DeleteFunc(s.order, func(name string) bool { return name == lower })
	return nil
}

// alterTable replaces the table by one of the new shape over the same rows.
func (s *schema) alterTable(statement *spansql.AlterTable) error {
	old, err := s.table(string(statement.Name))
	if err != nil {
		return err
	}
	altered := *old
	altered.Columns = slices.Clone(old.Columns)
	definition := *old.statement
	definition.Columns = slices.Clone(definition.Columns)
	altered.statement = &definition

	switch alteration := statement.Alteration.(type) {
	case spansql.AddColumn:
		err = altered.alterAddColumn(alteration)
	case spansql.DropColumn:
		err = s.alterDropColumn(&altered, alteration)
	default:
		err = status.Errorf(codes.Unimplemented, "localcloud does not support the DDL statement: %s", statement.SQL())
	}
	if err != nil {
		return err
	}
	s.tables[strings.ToLower(altered.Name)] = &altered
	return nil
}

func (t *Table) alterAddColumn(alteration spansql.AddColumn) error {
	if _, err := t.Column(string(alteration.Def.Name)); err == nil && alteration.IfNotExists {
		return nil
	}
	if alteration.Def.NotNull {
		return status.Errorf(codes.Unimplemented, "Cannot add NOT NULL column %s.%s to existing table %s.", t.Name, alteration.Def.Name, t.Name)
	}
	if err := t.addColumn(alteration.Def); err != nil {
		return err
	}
	t.statement.Columns = append(t.statement.Columns, alteration.Def)
	return nil
}

func (s *schema) alterDropColumn(t *Table, alteration spansql.DropColumn) error {
	dropped, err := t.Column(string(alteration.Name))
	if err != nil {
		return err
	}
	name := t.Columns[dropped].Name
	t.Key = slices.Clone(t.Key)
	for i, part := range t.Key {
		if part.Column == dropped {
			return status.Errorf(codes.InvalidArgument, "Cannot drop key column %s from table %s.", name, t.Name)
		}
		if part.Column > dropped {
			t.Key[i].Column--
		}
	}
	for _, index := range s.indexes {
		if index.table == strings.ToLower(t.Name) && slices.Contains(index.columns, strings.ToLower(name)) {
			return status.Errorf(codes.FailedPrecondition, "Cannot drop column %s from table %s because it is used by index %s.", name, t.Name, index.name)
		}
	}
	t.Columns = slices.Delete(t.Columns, dropped, dropped+1)
	t.statement.Columns = slices.Delete(t.statement.Columns, dropped, dropped+1)
	return nil
}
