package spanner

import (
	"context"
	"strings"
	"time"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/query"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// executeChange runs an INSERT, UPDATE or DELETE.
func (a *dataAPI) executeChange(ctx context.Context, req *spannerpb.ExecuteSqlRequest) (*spannerpb.ResultSet, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	if err := checkMode(req); err != nil {
		return nil, err
	}
	change, err := db.compileChange(req)
	if err != nil {
		return nil, err
	}
	tx, begun, err := db.changing(ctx, req.GetTransaction())
	if err != nil {
		return nil, err
	}
	if tx.mode == partitionedDML {
		return db.changeInParts(ctx, tx, change)
	}
	if answer, err := tx.replayed(req.GetSeqno()); answer != nil || err != nil {
		set, _ := answer.(*spannerpb.ResultSet)
		return set, err
	}
	set, err := db.change(ctx, tx, change)
	if err != nil {
		return nil, err
	}
	set.Metadata.Transaction = begun
	tx.answered(req.GetSeqno(), set)
	return set, nil
}

// ExecuteBatchDml runs statements in their order, up to the first that fails. The method's name is the protocol's.
func (a *dataAPI) ExecuteBatchDml(ctx context.Context, req *spannerpb.ExecuteBatchDmlRequest) (*spannerpb.ExecuteBatchDmlResponse, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	if len(req.GetStatements()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "No statements in batch DML request.")
	}
	tx, begun, err := db.changing(ctx, req.GetTransaction())
	if err != nil {
		return nil, err
	}
	if tx.mode == partitionedDML {
		return nil, status.Error(codes.InvalidArgument, "PartitionedDml transaction may only be used to execute one statement.")
	}
	if answer, err := tx.replayed(req.GetSeqno()); answer != nil || err != nil {
		batch, _ := answer.(*spannerpb.ExecuteBatchDmlResponse)
		return batch, err
	}
	answer := &spannerpb.ExecuteBatchDmlResponse{Status: status.New(codes.OK, "").Proto()}
	for i, statement := range req.GetStatements() {
		set, err := db.compileAndChange(ctx, tx, statement)
		if err != nil {
			answer.Status = status.Newf(status.Code(err), "Statement %d: %s", i, status.Convert(err).Message()).Proto()
			break
		}
		if i == 0 {
			set.Metadata.Transaction = begun
		}
		answer.ResultSets = append(answer.ResultSets, set)
	}
	tx.answered(req.GetSeqno(), answer)
	return answer, nil
}

func (db *database) compileAndChange(ctx context.Context, tx *transaction, statement parametrised) (*spannerpb.ResultSet, error) {
	change, err := db.compileChange(statement)
	if err != nil {
		return nil, err
	}
	return db.change(ctx, tx, change)
}

func (db *database) compileChange(statement parametrised) (*query.Change, error) {
	params, err := decodeParams(statement)
	if err != nil {
		return nil, err
	}
	return query.CompileChange(db.rows, statement.GetSql(), params)
}

// change adds what a statement does to a read-write transaction.
func (db *database) change(ctx context.Context, tx *transaction, change *query.Change) (*spannerpb.ResultSet, error) {
	plan, err := db.plan(ctx, tx, change)
	if err != nil {
		return nil, err
	}
	tx.keep(change.Table, plan)
	return &spannerpb.ResultSet{Metadata: metadata(nil, nil), Stats: &spannerpb.ResultSetStats{
		RowCount: &spannerpb.ResultSetStats_RowCountExact{RowCountExact: int64(len(plan))},
	}}, nil
}

// changing resolves the transaction of a DML statement.
func (db *database) changing(ctx context.Context, selector *spannerpb.TransactionSelector) (tx *transaction, begun *spannerpb.Transaction, err error) {
	switch sel := selector.GetSelector().(type) {
	case *spannerpb.TransactionSelector_Id:
		tx, err = db.transaction(sel.Id)
	case *spannerpb.TransactionSelector_Begin:
		tx, begun, err = db.beginTransaction(ctx, sel.Begin)
	default:
		return nil, nil, status.Error(codes.InvalidArgument, "DML statements may not be performed in single-use transactions, to avoid replay.")
	}
	if err == nil && tx.mode == readOnly {
		err = status.Error(codes.FailedPrecondition, "DML statements can only be performed in a read-write or partitioned-dml transaction.")
	}
	return tx, begun, err
}

// replayed returns the answer to a request that the client sends again because it did not get it.
func (tx *transaction) replayed(seqno int64) (proto.Message, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch {
	case tx.replay == nil || seqno > tx.seqno:
		return nil, nil
	case seqno == tx.seqno:
		return tx.replay, nil
	default:
		return nil, status.Errorf(codes.InvalidArgument, "Request has an out-of-order seqno. Request seqno=%d. Last seen seqno=%d.", seqno, tx.seqno)
	}
}

// answered remembers the answer to the last request with DML.
func (tx *transaction) answered(seqno int64, answer proto.Message) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.seqno, tx.replay = seqno, answer
}

// plan finds out what a statement does to the rows that the transaction sees.
func (db *database) plan(ctx context.Context, tx *transaction, change *query.Change) ([]query.Planned, error) {
	readAt, err := tx.snapshot(db.rows)
	if err != nil {
		return nil, err
	}
	if err := db.rows.AwaitTimestamp(ctx, readAt); err != nil {
		return nil, err
	}
	v := view{readAt: readAt, tx: tx}
	if change.Finds() {
		if err := v.observe(change.Table, change.Spans); err != nil {
			return nil, err
		}
	}
	plan, err := change.Plan(ctx, readAt)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range plan {
		if err := plan[i].Mutation.Check(now); err != nil {
			return nil, err
		}
	}
	if change.IsInsert() {
		return plan, db.checkNew(ctx, v, change.Table, plan)
	}
	return plan, nil
}

// checkNew refuses an INSERT of rows that are there, or that the transaction has made already.
func (db *database) checkNew(ctx context.Context, v view, table *rows.Table, plan []query.Planned) error {
	exists := func() error {
		return status.Errorf(codes.AlreadyExists, "Row already exists in table %s.", table.Name)
	}
	seen := map[string]bool{}
	spans := make([]rows.Span, 0, len(plan))
	for _, planned := range plan {
		if planned.Key == "" {
			continue // the commit will tell
		}
		there, known := v.tx.hasWritten(table, planned.Key)
		if seen[planned.Key] || there {
			return exists()
		}
		seen[planned.Key] = true
		if known {
			continue
		}
		spans = append(spans, rows.PrefixSpan(planned.Key))
	}
	v.tx.observed(table, spans)
	return db.rows.Scan(ctx, table, spans, v.readAt, func([]any) (bool, error) { return false, exists() })
}

// keep adds a statement's changes to the transaction.
func (tx *transaction) keep(table *rows.Table, plan []query.Planned) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	name := strings.ToLower(table.Name)
	if tx.written == nil {
		tx.written = map[string]map[string]bool{}
	}
	if tx.written[name] == nil && len(plan) > 0 {
		tx.written[name] = map[string]bool{}
	}
	for _, planned := range plan {
		tx.pending = append(tx.pending, planned.Mutation)
		tx.written[name][planned.Key] = planned.Mutation.Op != rows.Delete
	}
}

// hasChanged reports whether DML of the transaction has changed the table.
func (tx *transaction) hasChanged(table *rows.Table) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return len(tx.written[strings.ToLower(table.Name)]) > 0
}

// hasWritten reports whether DML of the transaction has made (there) or deleted the row, if it did either (known).
func (tx *transaction) hasWritten(table *rows.Table, key string) (there, known bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	there, known = tx.written[strings.ToLower(table.Name)][key]
	return there, known
}

// partMutations bounds the cells that a part of a partitioned statement writes, so that its commit stays within
// the limits.
const partMutations = 10_000

// changeInParts runs the one statement of a partitioned DML transaction. Each part is a commit of its own; when
// others have changed its rows, the statement looks for what is left to do.
func (db *database) changeInParts(ctx context.Context, tx *transaction, change *query.Change) (*spannerpb.ResultSet, error) {
	if !change.Finds() {
		return nil, status.Error(codes.InvalidArgument, "INSERT is not supported for Partitioned DML.")
	}
	tx.mu.Lock()
	used := tx.finished
	tx.finished = true
	tx.mu.Unlock()
	if used {
		return nil, status.Error(codes.InvalidArgument, "PartitionedDml transaction may only be used to execute one statement.")
	}
	done := int64(0)
	for {
		n, err := db.changeParts(ctx, change)
		done += n
		if status.Code(err) == codes.Aborted && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &spannerpb.ResultSet{Metadata: metadata(nil, nil), Stats: &spannerpb.ResultSetStats{
			RowCount: &spannerpb.ResultSetStats_RowCountLowerBound{RowCountLowerBound: done},
		}}, nil
	}
}

// changeParts commits the statement part by part, as far as nobody comes in between, and counts the rows.
func (db *database) changeParts(ctx context.Context, change *query.Change) (done int64, err error) {
	readAt := db.rows.StrongTimestamp()
	plan, err := change.Plan(ctx, readAt)
	if err != nil {
		return 0, err
	}
	for len(plan) > 0 {
		size := min(len(plan), max(1, partMutations/(1+len(plan[0].Mutation.Columns))))
		part := rows.Commit{ReadAt: readAt}
		for _, planned := range plan[:size] {
			part.Mutations = append(part.Mutations, planned.Mutation)
			part.Reads = append(part.Reads, rows.ReadSpan{Table: change.Table, Span: rows.PrefixSpan(planned.Key)})
		}
		if _, err := db.rows.Commit(part); err != nil {
			return done, err
		}
		done += int64(size)
		plan = plan[size:]
	}
	return done, nil
}
