package spanner

import (
	"context"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// engine is what the service needs of one database's rows. Every method is safe for concurrent use and
// returns gRPC status errors with the codes of the real service. Timestamps are microseconds since 1970.
type engine interface {
	// Table returns the shape of the table as it is now.
	Table(name string) (*rows.Table, error)
	// Scan visits the rows of the spans as they were at the timestamp; see [rows.DB.Scan].
	Scan(ctx context.Context, table *rows.Table, spans []rows.Span, timestamp int64, visit func(row []any) (bool, error)) error
	// StrongTimestamp returns a timestamp at which every commit that has returned is seen.
	StrongTimestamp() int64
	// AwaitTimestamp returns when reads at the timestamp will always answer the same.
	AwaitTimestamp(ctx context.Context, timestamp int64) error
	// Commit applies all of the commit or nothing. It is ABORTED when what the transaction read has changed.
	Commit(rows.Commit) (rows.Committed, error)
	// ApplyDDL applies the statements in order, up to the first that fails.
	ApplyDDL(statements []string) error
	// DDL returns the statements that make the schema as it is now.
	DDL() []string
}

var _ engine = (*rows.DB)(nil)
