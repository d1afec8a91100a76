package spanner

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

const (
	// transactionIdle is how long a transaction may rest. Nothing waits for it; it only costs memory.
	transactionIdle = 10 * time.Minute
	// commitRemembered is how long the answer to a commit is kept for a client that did not get it and asks again.
	commitRemembered = time.Minute
	// sweepEvery is the least time between two sweeps of old transactions.
	sweepEvery = 10 * time.Second
)

// database is one database with its sessions and transactions.
type database struct {
	name    string
	created time.Time
	rows    engine
	nonce   string // marks the IDs that this database has given

	mu           sync.Mutex
	sessions     map[string]*session
	transactions map[string]*transaction
	issued       int // session and transaction IDs so far
	swept        time.Time
}

// session is a named session. Sessions here hold nothing: a transaction belongs to its database.
type session struct {
	proto *spannerpb.Session
}

func newDatabase(name string, rows engine) *database {
	return &database{
		name: name, created: time.Now(), rows: rows, nonce: rand.Text()[:8],
		sessions: map[string]*session{}, transactions: map[string]*transaction{}, swept: time.Now(),
	}
}

func (db *database) proto() *databasepb.Database {
	return &databasepb.Database{
		Name: db.name, State: databasepb.Database_READY, CreateTime: timestamppb.New(db.created),
		DatabaseDialect: databasepb.DatabaseDialect_GOOGLE_STANDARD_SQL, VersionRetentionPeriod: "1h",
	}
}

func (db *database) addSession(template *spannerpb.Session) *spannerpb.Session {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.issued++
	now := timestamppb.Now()
	created := &spannerpb.Session{
		Name:   fmt.Sprintf("%s/sessions/%s-%d", db.name, db.nonce, db.issued),
		Labels: template.GetLabels(), CreatorRole: template.GetCreatorRole(), Multiplexed: template.GetMultiplexed(),
		CreateTime: now, ApproximateLastUseTime: now,
	}
	db.sessions[created.GetName()] = &session{proto: created}
	return created
}

func (db *database) session(name string) (*session, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if session, ok := db.sessions[name]; ok {
		return session, nil
	}
	return nil, notFound("Session", sessionType, name)
}

func (db *database) deleteSession(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.sessions, name)
}

// mode is what a transaction is for.
type mode uint8

const (
	readWrite mode = iota
	readOnly
	partitionedDML // one statement, which may be done in parts
)

// transaction is a transaction that has an ID.
type transaction struct {
	id   string
	mode mode

	mu       sync.Mutex
	used     time.Time
	readAt   int64 // 0 until the first read of a read-write transaction
	reads    []rows.ReadSpan
	pending  []rows.Mutation            // of its DML statements
	written  map[string]map[string]bool // of them, by table (lower case) and encoded key: whether the row is there now
	seqno    int64                      // of the last request with DML
	replay   proto.Message              // its answer
	finished bool                       // committed or rolled back
	response *spannerpb.CommitResponse  // of the commit, once there is one
}

// begin makes a transaction. readAt is 0 for one that has not read yet.
func (db *database) begin(mode mode, readAt int64) *transaction {
	now := time.Now()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sweep(now)
	db.issued++
	tx := &transaction{id: fmt.Sprintf("%s-%d", db.nonce, db.issued), mode: mode, readAt: readAt, used: now}
	db.transactions[tx.id] = tx
	return tx
}

// sweep forgets transactions that nobody will ask for again. db.mu is held.
func (db *database) sweep(now time.Time) {
	if now.Sub(db.swept) < sweepEvery {
		return
	}
	db.swept = now
	maps.DeleteFunc(db.transactions, func(_ string, tx *transaction) bool { return tx.stale(now) })
}

func (tx *transaction) stale(now time.Time) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	idle := now.Sub(tx.used)
	return idle > transactionIdle || tx.finished && idle > commitRemembered
}

// transaction returns the transaction with the ID. One that was forgotten is ABORTED, so that a client runs
// it again; one that never was is NOT_FOUND.
func (db *database) transaction(id []byte) (*transaction, error) {
	db.mu.Lock()
	tx, ok := db.transactions[string(id)]
	db.mu.Unlock()
	if ok {
		return tx, nil
	}
	if strings.HasPrefix(string(id), db.nonce+"-") {
		return nil, rows.Aborted("Transaction was idle for too long.")
	}
	return nil, status.Errorf(codes.NotFound, "Transaction not found: %q", id)
}

// snapshot returns the timestamp that the transaction reads at, and fixes it with the first read.
func (tx *transaction) snapshot(rows engine) (int64, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.finished {
		return 0, status.Error(codes.FailedPrecondition, "Cannot start a read or query within a transaction after Commit() or Rollback() has been called.")
	}
	tx.used = time.Now()
	if tx.readAt == 0 {
		tx.readAt = rows.StrongTimestamp()
	}
	return tx.readAt, nil
}

// observed records what a read-write transaction is about to read.
func (tx *transaction) observed(table *rows.Table, spans []rows.Span) {
	if tx.mode == readOnly {
		return
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, span := range spans {
		tx.reads = append(tx.reads, rows.ReadSpan{Table: table, Span: span})
	}
}
