package spanner

import (
	"context"
	"time"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func (a *dataAPI) BeginTransaction(ctx context.Context, req *spannerpb.BeginTransactionRequest) (*spannerpb.Transaction, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	_, begun, err := db.beginTransaction(ctx, req.GetOptions())
	return begun, err
}

func (a *dataAPI) Rollback(_ context.Context, req *spannerpb.RollbackRequest) (*emptypb.Empty, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	tx, err := db.transaction(req.GetTransactionId())
	if err != nil {
		return nil, err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.mode != readWrite {
		return nil, status.Error(codes.FailedPrecondition, "Cannot rollback a read-only or partitioned DML transaction.")
	}
	if tx.response != nil {
		return nil, status.Error(codes.FailedPrecondition, "Cannot rollback a transaction after Commit() has been called.")
	}
	tx.finished, tx.reads, tx.pending = true, nil, nil
	return &emptypb.Empty{}, nil
}

// beginTransaction makes a transaction with an ID, and what the client is told of it.
func (db *database) beginTransaction(ctx context.Context, options *spannerpb.TransactionOptions) (*transaction, *spannerpb.Transaction, error) {
	switch mode := options.GetMode().(type) {
	case *spannerpb.TransactionOptions_ReadWrite_:
		tx := db.begin(readWrite, 0)
		return tx, &spannerpb.Transaction{Id: []byte(tx.id)}, nil
	case *spannerpb.TransactionOptions_ReadOnly_:
		switch mode.ReadOnly.GetTimestampBound().(type) {
		case *spannerpb.TransactionOptions_ReadOnly_MinReadTimestamp, *spannerpb.TransactionOptions_ReadOnly_MaxStaleness:
			return nil, nil, status.Error(codes.InvalidArgument, "A bound of min_read_timestamp or max_staleness is for single-use transactions only.")
		}
		readAt, err := db.readTimestamp(ctx, mode.ReadOnly)
		if err != nil {
			return nil, nil, err
		}
		tx := db.begin(readOnly, readAt)
		begun := &spannerpb.Transaction{Id: []byte(tx.id)}
		if mode.ReadOnly.GetReturnReadTimestamp() {
			begun.ReadTimestamp = timestamppb.New(time.UnixMicro(readAt))
		}
		return tx, begun, nil
	case *spannerpb.TransactionOptions_PartitionedDml_:
		tx := db.begin(partitionedDML, 0)
		return tx, &spannerpb.Transaction{Id: []byte(tx.id)}, nil
	default:
		return nil, nil, status.Error(codes.InvalidArgument, "Invalid transaction options: no mode is set.")
	}
}

// maxReadAhead is how long the service lets a request run, and so how far in the future one can read.
const maxReadAhead = time.Hour

// readTimestamp picks the timestamp for a read bound. Where the bound leaves a choice, the freshest one is taken.
func (db *database) readTimestamp(ctx context.Context, bound *spannerpb.TransactionOptions_ReadOnly) (int64, error) {
	var readAt int64
	switch b := bound.GetTimestampBound().(type) {
	case *spannerpb.TransactionOptions_ReadOnly_ReadTimestamp:
		readAt = b.ReadTimestamp.AsTime().UnixMicro()
	case *spannerpb.TransactionOptions_ReadOnly_ExactStaleness:
		if b.ExactStaleness.AsDuration() < 0 {
			return 0, status.Error(codes.InvalidArgument, "exact_staleness must not be negative.")
		}
		readAt = time.Now().Add(-b.ExactStaleness.AsDuration()).UnixMicro()
	case *spannerpb.TransactionOptions_ReadOnly_MinReadTimestamp:
		readAt = max(db.rows.StrongTimestamp(), b.MinReadTimestamp.AsTime().UnixMicro())
	default: // strong, or a bounded staleness that the freshest timestamp satisfies
		return db.rows.StrongTimestamp(), nil
	}
	if ahead := time.Until(time.UnixMicro(readAt)); ahead > maxReadAhead {
		return 0, status.Errorf(codes.DeadlineExceeded, "Read-only transaction timestamp is %s in the future: the request would not end within %s.", ahead.Round(time.Second), maxReadAhead)
	}
	return readAt, db.rows.AwaitTimestamp(ctx, readAt)
}

// view is what one read or query sees.
type view struct {
	readAt int64
	tx     *transaction           // nil for a single-use read
	begun  *spannerpb.Transaction // for the metadata: a transaction that this read began, or its timestamp
}

// view resolves the transaction of a read.
func (db *database) view(ctx context.Context, selector *spannerpb.TransactionSelector) (view, error) {
	switch sel := selector.GetSelector().(type) {
	case nil:
		return view{readAt: db.rows.StrongTimestamp()}, nil
	case *spannerpb.TransactionSelector_SingleUse:
		if sel.SingleUse.GetMode() != nil && sel.SingleUse.GetReadOnly() == nil {
			return view{}, status.Error(codes.InvalidArgument, "A single-use transaction for a read must be read-only.")
		}
		readAt, err := db.readTimestamp(ctx, sel.SingleUse.GetReadOnly())
		if err != nil {
			return view{}, err
		}
		v := view{readAt: readAt}
		if sel.SingleUse.GetReadOnly().GetReturnReadTimestamp() {
			v.begun = &spannerpb.Transaction{ReadTimestamp: timestamppb.New(time.UnixMicro(readAt))}
		}
		return v, nil
	case *spannerpb.TransactionSelector_Id:
		tx, err := db.transaction(sel.Id)
		if err != nil {
			return view{}, err
		}
		if tx.mode == partitionedDML {
			return view{}, status.Error(codes.InvalidArgument, "PartitionedDml Transactions may only be used to execute DML statements.")
		}
		readAt, err := tx.snapshot(db.rows)
		if err != nil {
			return view{}, err
		}
		return view{readAt: readAt, tx: tx}, db.rows.AwaitTimestamp(ctx, readAt) // an old one may have lost its versions
	case *spannerpb.TransactionSelector_Begin:
		tx, begun, err := db.beginTransaction(ctx, sel.Begin)
		if err != nil {
			return view{}, err
		}
		readAt, err := tx.snapshot(db.rows)
		return view{readAt: readAt, tx: tx, begun: begun}, err
	default:
		return view{}, status.Errorf(codes.InvalidArgument, "Invalid transaction selector %T.", sel)
	}
}

// observe records a read in the view's transaction, if it has one. What DML of the same transaction has changed is
// not there to be read before the commit: rather than an old answer there is none.
func (v view) observe(table *rows.Table, spans []rows.Span) error {
	if v.tx == nil {
		return nil
	}
	if v.tx.hasChanged(table) {
		return status.Errorf(codes.Unimplemented, "localcloud does not support reads of table %s after DML on it in the same transaction.", table.Name)
	}
	v.tx.observed(table, spans)
	return nil
}
