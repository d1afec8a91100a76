package spannerschema

import (
	"strings"
	"testing"

	"cloud.google.com/go/spanner/spansql"
	"github.com/google/go-cmp/cmp"
)

func TestStatementsAreTheThreeTables(t *testing.T) {
	if strings.ContainsAny(withoutComments(SQL), `'"`) {
		t.Fatal("schema.sql holds a string literal: withoutComments would have to learn about it")
	}
	var got []string
	for _, statement := range Statements() {
		if strings.Contains(statement, "--") || strings.HasSuffix(statement, ";") {
			t.Errorf("statement is not bare DDL: %q", statement)
		}
		parsed, err := spansql.ParseDDLStmt(statement)
		if err != nil {
			t.Fatalf("parse %q: %v", statement, err)
		}
		table, ok := parsed.(*spansql.CreateTable)
		if !ok {
			t.Fatalf("statement is a %T, want a table", parsed)
		}
		got = append(got, string(table.Name))
	}
	if diff := cmp.Diff([]string{"Runs", "Results", "Attempts"}, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}
