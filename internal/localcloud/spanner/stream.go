package spanner

import (
	"encoding/binary"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// A streamed message is sent once it holds this many bytes or values.
const (
	chunkBytes  = 512 << 10
	chunkValues = 16 << 10
)

// field is a column of a result.
type field struct {
	name string
	kind rows.Kind
}

func metadata(fields []field, begun *spannerpb.Transaction) *spannerpb.ResultSetMetadata {
	rowType := &spannerpb.StructType{}
	for _, f := range fields {
		rowType.Fields = append(rowType.Fields, &spannerpb.StructType_Field{Name: f.name, Type: &spannerpb.Type{Code: typeCode(f.kind)}})
	}
	return &spannerpb.ResultSetMetadata{RowType: rowType, Transaction: begun}
}

// resumePoint says how far a stream has come: the timestamp it reads at and the rows it has sent. Rows come
// in the same order each time, so a broken stream goes on by running again and skipping them.
type resumePoint struct {
	readAt int64
	sent   int64
}

func (p resumePoint) token() []byte {
	return binary.AppendVarint(binary.AppendVarint(nil, p.readAt), p.sent)
}

func parseResumePoint(token []byte) (resumePoint, error) {
	readAt, n := binary.Varint(token)
	if n <= 0 {
		return resumePoint{}, status.Error(codes.InvalidArgument, "Invalid resume token.")
	}
	sent, m := binary.Varint(token[n:])
	if m <= 0 || sent < 0 {
		return resumePoint{}, status.Error(codes.InvalidArgument, "Invalid resume token.")
	}
	return resumePoint{readAt: readAt, sent: sent}, nil
}

// streamWriter gathers rows into messages. Each message ends with a row and carries a resume token.
type streamWriter struct {
	send     func(*spannerpb.PartialResultSet) error
	metadata *spannerpb.ResultSetMetadata // nil once it was sent
	skip     int64                        // rows that the client has from before
	point    resumePoint
	values   []*structpb.Value
	size     int
}

// row adds a row and sends a message when enough have gathered.
func (w *streamWriter) row(row []any) error {
	if w.skip > 0 {
		w.skip--
		return nil
	}
	for _, value := range row {
		w.values = append(w.values, encodeValue(value))
		w.size += valueSize(value)
	}
	w.point.sent++
	if w.size < chunkBytes && len(w.values) < chunkValues {
		return nil
	}
	return w.flush()
}

// flush sends what has gathered.
func (w *streamWriter) flush() error {
	if len(w.values) == 0 && w.metadata == nil {
		return nil
	}
	message := &spannerpb.PartialResultSet{Metadata: w.metadata, Values: w.values, ResumeToken: w.point.token()}
	w.metadata, w.values, w.size = nil, nil, 0
	return w.send(message)
}

func valueSize(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v) * 4 / 3
	default:
		return 16
	}
}
