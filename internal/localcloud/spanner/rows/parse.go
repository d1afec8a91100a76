package rows

import (
	"strings"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxStatement is the service's limit for the text of a query, in characters. It is taken for DDL as well.
	maxStatement = 1_000_000
	// maxNesting bounds the brackets and CASEs that the recursive parser has to follow. A few hundred thousand
	// of them overflow its stack, and no recover could save the process from that.
	maxNesting = 1000
)

// CheckStatement refuses a text that is too much for the parser, with INVALID_ARGUMENT. It must be asked before
// anything from a client is parsed.
func CheckStatement(sql string) error {
	if len(sql) > maxStatement {
		return status.Errorf(codes.InvalidArgument, "Statement length of %d exceeds maximum allowed length of %d.", len(sql), maxStatement)
	}
	cases, depth := strings.Count(strings.ToUpper(sql), "CASE"), 0
	for _, r := range sql {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth = max(0, depth-1) // those in a string must not make room for more
		}
		if depth+cases > maxNesting {
			return status.Error(codes.InvalidArgument, "Statement is too deeply nested.")
		}
	}
	return nil
}

// ParseDDL parses one DDL statement, or answers INVALID_ARGUMENT.
func ParseDDL(text string) (spansql.DDLStmt, error) {
	if err := CheckStatement(text); err != nil {
		return nil, err
	}
	statement, err := spansql.ParseDDLStmt(text)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Error parsing Spanner DDL statement: %s : %v", text, err)
	}
	return statement, nil
}
