package spanner

import (
	"context"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func (a *dataAPI) Commit(_ context.Context, req *spannerpb.CommitRequest) (*spannerpb.CommitResponse, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	switch t := req.GetTransaction().(type) {
	case *spannerpb.CommitRequest_SingleUseTransaction:
		if t.SingleUseTransaction.GetReadWrite() == nil {
			return nil, status.Error(codes.InvalidArgument, "Commit needs a read-write transaction.")
		}
		return db.commit(rows.Commit{}, req.GetMutations(), req.GetReturnCommitStats())
	case *spannerpb.CommitRequest_TransactionId:
		tx, err := db.transaction(t.TransactionId)
		if err != nil {
			return nil, err
		}
		return db.commitTransaction(tx, req)
	default:
		return nil, status.Error(codes.InvalidArgument, "Commit names no transaction.")
	}
}

// commitTransaction commits once: a client that lost the answer and asks again gets the same one.
func (db *database) commitTransaction(tx *transaction, req *spannerpb.CommitRequest) (*spannerpb.CommitResponse, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch {
	case tx.response != nil:
		return tx.response, nil
	case tx.finished:
		return nil, status.Error(codes.FailedPrecondition, "Cannot commit a transaction after Rollback() has been called, or after its commit failed.")
	case tx.mode != readWrite:
		return nil, status.Error(codes.FailedPrecondition, "Cannot commit a read-only or partitioned DML transaction.")
	}
	resp, err := db.commit(rows.Commit{Mutations: tx.pending, Reads: tx.reads, ReadAt: tx.readAt}, req.GetMutations(), req.GetReturnCommitStats())
	tx.finished, tx.reads, tx.pending, tx.response = true, nil, nil, resp
	return resp, err
}

// commit applies mutations on top of what the commit already holds.
func (db *database) commit(c rows.Commit, mutations []*spannerpb.Mutation, stats bool) (*spannerpb.CommitResponse, error) {
	decoded, err := db.decodeMutations(mutations)
	if err != nil {
		return nil, err
	}
	c.Mutations = append(c.Mutations, decoded...)
	committed, err := db.rows.Commit(c)
	if err != nil {
		return nil, err
	}
	resp := &spannerpb.CommitResponse{CommitTimestamp: timestamppb.New(committed.At)}
	if stats {
		resp.CommitStats = &spannerpb.CommitResponse_CommitStats{MutationCount: committed.Mutations}
	}
	return resp, nil
}

func (db *database) decodeMutations(mutations []*spannerpb.Mutation) ([]rows.Mutation, error) {
	decoded := make([]rows.Mutation, 0, len(mutations))
	for _, mutation := range mutations {
		var m rows.Mutation
		var err error
		switch op := mutation.GetOperation().(type) {
		case *spannerpb.Mutation_Insert:
			m, err = db.decodeWrite(rows.Insert, op.Insert)
		case *spannerpb.Mutation_Update:
			m, err = db.decodeWrite(rows.Update, op.Update)
		case *spannerpb.Mutation_InsertOrUpdate:
			m, err = db.decodeWrite(rows.InsertOrUpdate, op.InsertOrUpdate)
		case *spannerpb.Mutation_Replace:
			m, err = db.decodeWrite(rows.Replace, op.Replace)
		case *spannerpb.Mutation_Delete_:
			m, err = db.decodeDelete(op.Delete)
		case nil:
			err = status.Error(codes.InvalidArgument, "A mutation holds no operation.")
		default:
			err = status.Errorf(codes.Unimplemented, "localcloud does not support the mutation %T.", op)
		}
		if err != nil {
			return nil, err
		}
		decoded = append(decoded, m)
	}
	return decoded, nil
}

func (db *database) decodeWrite(op rows.Op, write *spannerpb.Mutation_Write) (rows.Mutation, error) {
	table, err := db.rows.Table(write.GetTable())
	if err != nil {
		return rows.Mutation{}, err
	}
	m := rows.Mutation{Op: op, Table: table}
	for _, name := range write.GetColumns() {
		column, err := table.Column(name)
		if err != nil {
			return rows.Mutation{}, err
		}
		m.Columns = append(m.Columns, column)
	}
	for _, values := range write.GetValues() {
		if len(values.GetValues()) != len(m.Columns) {
			return rows.Mutation{}, status.Errorf(codes.InvalidArgument, "Mutation for table %s has %d columns but a row of %d values.",
				table.Name, len(m.Columns), len(values.GetValues()))
		}
		row := make([]any, len(m.Columns))
		for i, value := range values.GetValues() {
			if row[i], err = decodeCell(table, &table.Columns[m.Columns[i]], value); err != nil {
				return rows.Mutation{}, err
			}
		}
		m.Rows = append(m.Rows, row)
	}
	return m, nil
}

func (db *database) decodeDelete(del *spannerpb.Mutation_Delete) (rows.Mutation, error) {
	table, err := db.rows.Table(del.GetTable())
	if err != nil {
		return rows.Mutation{}, err
	}
	m := rows.Mutation{Op: rows.Delete, Table: table}
	if del.GetKeySet().GetAll() {
		m.Spans = []rows.Span{rows.All()}
		return m, nil
	}
	if m.Keys, err = decodeKeys(table, del.GetKeySet().GetKeys()); err != nil {
		return rows.Mutation{}, err
	}
	if m.Spans, err = decodeRanges(table, del.GetKeySet().GetRanges()); err != nil {
		return rows.Mutation{}, err
	}
	for _, r := range del.GetKeySet().GetRanges() {
		if err := checkDeleteRange(table, r); err != nil {
			return rows.Mutation{}, err
		}
	}
	return m, nil
}

// BatchWrite commits each group by itself and answers for each as it is done. A group that fails does not
// hold up the others.
func (a *dataAPI) BatchWrite(req *spannerpb.BatchWriteRequest, stream spannerpb.Spanner_BatchWriteServer) error {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return err
	}
	for i, group := range req.GetMutationGroups() {
		answer := &spannerpb.BatchWriteResponse{Indexes: []int32{int32(i)}} // a request cannot hold 2^31 groups
		committed, err := db.commit(rows.Commit{}, group.GetMutations(), false)
		if err != nil {
			answer.Status = status.Convert(err).Proto()
		} else {
			answer.Status = status.New(codes.OK, "").Proto()
			answer.CommitTimestamp = committed.GetCommitTimestamp()
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	return nil
}
