// Package spannerschema holds the tables that spotbatch keeps in Spanner, as the DDL text that operators
// read and as the statements that a Spanner client sends.
package spannerschema

import (
	_ "embed"
	"strings"
)

// SQL is schema.sql as it stands in the repository, with its comments.
//
//go:embed schema.sql
var SQL string

// Statements returns the DDL statements of SQL in their order, without comments and without the closing
// semicolons: the form that CreateDatabase and UpdateDatabaseDdl take.
func Statements() []string {
	var statements []string
	for statement := range strings.SplitSeq(withoutComments(SQL), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// withoutComments drops each "--" comment up to the end of its line. The schema holds no string literal,
// so a "--" can only start a comment; a test keeps it that way.
func withoutComments(sql string) string {
	var kept strings.Builder
	for line := range strings.Lines(sql) {
		code, _, _ := strings.Cut(line, "--")
		if code = strings.TrimRight(code, " \t\r\n"); code != "" {
			kept.WriteString(code)
			kept.WriteByte('\n')
		}
	}
	return kept.String()
}
