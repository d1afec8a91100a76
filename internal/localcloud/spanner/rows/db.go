package rows

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// versionRetention is how long an overwritten or deleted row stays readable, as in the service by default.
const versionRetention = time.Hour

// scanChunk bounds the rows that a scan takes while it holds the lock, so that a long scan does not stop writers.
const scanChunk = 512

// DB is one database: its schema and its rows. Make one with New. It is safe for concurrent use.
type DB struct {
	// last is the newest timestamp that was handed out, to a commit or to a read, in microseconds. A commit
	// takes a later one, so what a reader has seen at its timestamp stays true.
	last atomic.Int64
	// observe is nil when nobody wants to know.
	observe Observer

	mu      sync.RWMutex
	schema  *schema
	retired []superseded // oldest first
}

// Observer is told of every commit that takes effect: when, and what it brought. It is called under the
// database's lock, before anybody can see the commit, so what it is told is in the order of the commits, and
// earlier than anything that follows from them. It must be quick, must not call the database, and must not
// change or keep the mutations.
type Observer func(at time.Time, mutations []Mutation)

// New returns an empty database; observe may be nil.
func New(observe Observer) *DB {
	db := &DB{schema: newSchema(), observe: observe}
	db.last.Store(time.Now().UnixMicro())
	return db
}

// Table returns the named table as it stands now, or NOT_FOUND.
func (db *DB) Table(name string) (*Table, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.schema.table(name)
}

// StrongTimestamp returns a timestamp, in microseconds since 1970, at which a read sees every commit that
// has returned.
func (db *DB) StrongTimestamp() int64 {
	now := time.Now().UnixMicro()
	for {
		last := db.last.Load()
		if last >= now {
			return last
		}
		if db.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// AwaitTimestamp returns when reads at the timestamp are settled: at once for one that has passed. It
// refuses one whose versions may be gone, with FAILED_PRECONDITION as the service does.
func (db *DB) AwaitTimestamp(ctx context.Context, timestamp int64) error {
	if time.Since(time.UnixMicro(timestamp)) > versionRetention {
		return status.Errorf(codes.FailedPrecondition, "Read-only transaction timestamp %s has exceeded the maximum timestamp staleness of %s.",
			time.UnixMicro(timestamp).UTC().Format(time.RFC3339Nano), versionRetention)
	}
	for db.StrongTimestamp() < timestamp {
		timer := time.NewTimer(time.Until(time.UnixMicro(timestamp)) + time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return status.FromContextError(ctx.Err()).Err()
		case <-timer.C:
		}
	}
	return nil
}

// Scan calls visit for each row of the spans, in the order of the spans and of the keys in them, as the
// table was at the timestamp. row holds a value a column of table, and is overwritten by the next call.
// Scan ends early, without an error, when visit returns false.
func (db *DB) Scan(ctx context.Context, table *Table, spans []Span, timestamp int64, visit func(row []any) (more bool, err error)) error {
	scanner := scanner{db: db, table: table, timestamp: timestamp, visit: visit, slots: make([]any, table.slots)}
	for _, span := range spans {
		if more, err := scanner.span(ctx, span); err != nil || !more {
			return err
		}
	}
	return nil
}

type scanner struct {
	db        *DB
	table     *Table
	timestamp int64
	visit     func([]any) (bool, error)
	slots     []any
	row       []any
	chunk     []string
}

// span scans one span, a chunk under the lock at a time.
func (s *scanner) span(ctx context.Context, span Span) (more bool, err error) {
	for !span.Empty() {
		if err := ctx.Err(); err != nil {
			return false, status.FromContextError(err).Err()
		}
		span.From = s.take(span)
		for _, stored := range s.chunk {
			if err := decodeRow(stored, s.slots); err != nil {
				return false, status.Errorf(codes.DataLoss, "table %s: %v", s.table.Name, err)
			}
			if more, err := s.visit(s.columns()); err != nil || !more {
				return false, err
			}
		}
	}
	return true, nil
}

// take fills the chunk from the start of the span and returns where the next one starts.
func (s *scanner) take(span Span) (next string) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	s.chunk = s.chunk[:0]
	next = span.To
	visited := 0
	s.table.data.ascend(span, func(key string, v *version) bool {
		if visited++; visited > scanChunk {
			next = key
			return false
		}
		if v := v.asOf(s.timestamp); v != nil {
			s.chunk = append(s.chunk, v.row)
		}
		return true
	})
	return next
}

// columns orders the cells of the decoded row by column.
func (s *scanner) columns() []any {
	if len(s.table.Columns) == s.table.slots {
		return s.slots // no column was ever dropped: slot and column are the same
	}
	s.row = s.row[:0]
	for i := range s.table.Columns {
		s.row = append(s.row, s.slots[s.table.Columns[i].slot])
	}
	return s.row
}

// schema is the tables and indexes of a database. The DB's mutex guards it.
type schema struct {
	tables  map[string]*Table // by lower-case name
	indexes []*index
	order   []string // lower-case names of the tables in the order of their creation
}

func newSchema() *schema { return &schema{tables: map[string]*Table{}} }

func (s *schema) table(name string) (*Table, error) {
	if table, ok := s.tables[strings.ToLower(name)]; ok {
		return table, nil
	}
	return nil, status.Errorf(codes.NotFound, "Table not found: %s", name)
}
