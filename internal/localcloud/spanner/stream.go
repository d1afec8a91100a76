package spanner

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// A streamed message is sent once it holds this many bytes or values. A value that would make it longer goes on
// in the next message, as in the service: so no message is much longer, whatever the row holds.
const (
	chunkBytes  = 1 << 20
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

// streamWriter gathers rows into messages. Those that end with a row carry a resume token.
type streamWriter struct {
	send     func(*spannerpb.PartialResultSet) error
	metadata *spannerpb.ResultSetMetadata // nil once it was sent
	skip     int64                        // rows that the client has from before
	point    resumePoint
	values   []*structpb.Value // of whole rows
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

// flush sends what has gathered, in one message or more.
func (w *streamWriter) flush() error {
	if len(w.values) == 0 && w.metadata == nil {
		return nil
	}
	rest := w.values
	w.values, w.size = nil, 0
	for {
		message := &spannerpb.PartialResultSet{Metadata: w.metadata}
		message.Values, rest, message.ChunkedValue = firstChunk(rest)
		if len(rest) == 0 {
			message.ResumeToken = w.point.token()
		}
		w.metadata = nil
		if err := w.send(message); err != nil || len(rest) == 0 {
			return err
		}
	}
}

// firstChunk cuts off the values for one message. When chunked is true, the last of them is the start of a text
// and the first of the rest is how that text goes on.
func firstChunk(values []*structpb.Value) (first, rest []*structpb.Value, chunked bool) {
	room := chunkBytes
	for i, value := range values {
		text, isText := value.GetKind().(*structpb.Value_StringValue)
		if !isText {
			continue
		}
		if len(text.StringValue) <= room {
			room -= len(text.StringValue)
			continue
		}
		cut := room
		for cut > 0 && !utf8.RuneStart(text.StringValue[cut]) {
			cut-- // each part must be valid UTF-8
		}
		if cut == 0 {
			return values[:i], values[i:], false
		}
		first = append(slices.Clone(values[:i]), structpb.NewStringValue(text.StringValue[:cut]))
		rest = append([]*structpb.Value{structpb.NewStringValue(text.StringValue[cut:])}, values[i+1:]...)
		return first, rest, true
	}
	return values, nil, false
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
