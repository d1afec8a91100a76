package spanner

import (
	"context"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// result is a read or query that is ready to run.
type result struct {
	fields []field
	view   view
	// run calls emit for each row, which it may change after the call.
	run func(ctx context.Context, readAt int64, emit func(row []any) error) error
	// await refuses a timestamp whose versions may be gone.
	await func(ctx context.Context, readAt int64) error
}

func (a *dataAPI) Read(ctx context.Context, req *spannerpb.ReadRequest) (*spannerpb.ResultSet, error) {
	res, err := a.prepareRead(ctx, req)
	if err != nil {
		return nil, err
	}
	return res.collect(ctx)
}

func (a *dataAPI) StreamingRead(req *spannerpb.ReadRequest, stream spannerpb.Spanner_StreamingReadServer) error {
	res, err := a.prepareRead(stream.Context(), req)
	if err != nil {
		return err
	}
	return res.stream(stream.Context(), req.GetResumeToken(), stream.Send)
}

// prepareRead checks a read and resolves its transaction.
func (a *dataAPI) prepareRead(ctx context.Context, req *spannerpb.ReadRequest) (*result, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	if req.GetIndex() != "" {
		return nil, status.Errorf(codes.Unimplemented, "localcloud does not support reads through an index (%s): read the table.", req.GetIndex())
	}
	if len(req.GetPartitionToken()) > 0 {
		return nil, status.Error(codes.Unimplemented, "localcloud does not support partitioned reads.")
	}
	if req.GetLimit() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid read limit: %d. It must not be negative.", req.GetLimit())
	}
	table, err := db.rows.Table(req.GetTable())
	if err != nil {
		return nil, err
	}
	columns, fields, err := readColumns(table, req.GetColumns())
	if err != nil {
		return nil, err
	}
	spans, err := decodeKeySet(table, req.GetKeySet())
	if err != nil {
		return nil, err
	}
	spans = inOrder(spans)
	v, err := db.view(ctx, req.GetTransaction())
	if err != nil {
		return nil, err
	}
	if err := v.observe(table, spans); err != nil {
		return nil, err
	}
	return &result{fields: fields, view: v, await: db.rows.AwaitTimestamp, run: func(ctx context.Context, readAt int64, emit func([]any) error) error {
		out := make([]any, len(columns))
		left := req.GetLimit() // 0: no limit
		return db.rows.Scan(ctx, table, spans, readAt, func(row []any) (bool, error) {
			for i, column := range columns {
				out[i] = row[column]
			}
			left--
			return left != 0, emit(out)
		})
	}}, nil
}

func readColumns(table *rows.Table, names []string) (columns []int, fields []field, err error) {
	if len(names) == 0 {
		return nil, nil, status.Errorf(codes.InvalidArgument, "Invalid read of table %s: no columns.", table.Name)
	}
	for _, name := range names {
		column, err := table.Column(name)
		if err != nil {
			return nil, nil, err
		}
		columns = append(columns, column)
		fields = append(fields, field{name: table.Columns[column].Name, kind: table.Columns[column].Kind})
	}
	return columns, fields, nil
}

// maxResultBytes is the service's limit for a result that is not streamed.
const maxResultBytes = 10 << 20

// collect runs the result into one message.
func (r *result) collect(ctx context.Context) (*spannerpb.ResultSet, error) {
	set := &spannerpb.ResultSet{Metadata: metadata(r.fields, r.view.begun)}
	size := 0
	err := r.run(ctx, r.view.readAt, func(row []any) error {
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(row))}
		for i, value := range row {
			list.Values[i] = encodeValue(value)
			size += valueSize(value)
		}
		if size > maxResultBytes {
			return status.Error(codes.FailedPrecondition, "Result set too large. Result sets larger than 10.00M can only be yielded through the streaming API.")
		}
		set.Rows = append(set.Rows, list)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// stream runs the result into messages, from where the client's token says it has got to.
func (r *result) stream(ctx context.Context, token []byte, send func(*spannerpb.PartialResultSet) error) error {
	point := resumePoint{readAt: r.view.readAt}
	if len(token) > 0 {
		resumed, err := parseResumePoint(token)
		if err != nil {
			return err
		}
		if r.view.tx != nil && resumed.readAt != r.view.readAt {
			return status.Error(codes.InvalidArgument, "Invalid resume token: it belongs to another transaction.")
		}
		if err := r.await(ctx, resumed.readAt); err != nil {
			return err
		}
		point = resumed
	}
	w := &streamWriter{send: send, metadata: metadata(r.fields, r.view.begun), skip: point.sent, point: point}
	if r.view.begun != nil && len(r.view.begun.GetId()) > 0 {
		// The client holds back its other calls until it knows the transaction's ID.
		if err := w.flush(); err != nil {
			return err
		}
	}
	if err := r.run(ctx, point.readAt, w.row); err != nil {
		return err
	}
	return w.flush()
}
