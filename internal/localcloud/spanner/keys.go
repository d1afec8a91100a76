package spanner

import (
	"cmp"
	"slices"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// decodeKeySet returns the spans of a key set, in the order in which the client gave them.
func decodeKeySet(table *rows.Table, set *spannerpb.KeySet) ([]rows.Span, error) {
	if set.GetAll() {
		return []rows.Span{rows.All()}, nil
	}
	keys, err := decodeKeys(table, set.GetKeys())
	if err != nil {
		return nil, err
	}
	spans := make([]rows.Span, 0, len(keys)+len(set.GetRanges()))
	for _, key := range keys {
		spans = append(spans, rows.PrefixSpan(key))
	}
	ranges, err := decodeRanges(table, set.GetRanges())
	return append(spans, ranges...), err
}

// decodeKeys encodes whole keys.
func decodeKeys(table *rows.Table, keys []*structpb.ListValue) ([]string, error) {
	encoded := make([]string, 0, len(keys))
	for _, key := range keys {
		if got, want := len(key.GetValues()), len(table.Key); got != want {
			return nil, status.Errorf(codes.FailedPrecondition, "Wrong number of key parts in table %s. Expected: %d, got: %d.", table.Name, want, got)
		}
		k, err := encodeKey(table, key)
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, k)
	}
	return encoded, nil
}

func decodeRanges(table *rows.Table, ranges []*spannerpb.KeyRange) ([]rows.Span, error) {
	spans := make([]rows.Span, 0, len(ranges))
	for _, r := range ranges {
		span, err := decodeRange(table, r)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// checkDeleteRange refuses a range that the service does not delete: its ends may differ in the last part of the
// longer one only.
func checkDeleteRange(table *rows.Table, r *spannerpb.KeyRange) error {
	start, end := r.GetStartClosed(), r.GetEndClosed()
	if start == nil {
		start = r.GetStartOpen()
	}
	if end == nil {
		end = r.GetEndOpen()
	}
	shorter, longer := len(start.GetValues()), len(end.GetValues())
	if shorter > longer {
		shorter, longer = longer, shorter
	}
	shared := max(0, longer-1)
	if shared > shorter || !slices.EqualFunc(start.GetValues()[:shared], end.GetValues()[:shared], func(a, b *structpb.Value) bool { return proto.Equal(a, b) }) {
		return status.Errorf(codes.Unimplemented, "For delete ranges, start and limit keys may only differ in the final key part (table %s).", table.Name)
	}
	return nil
}

// decodeRange turns a range, whose ends may be the first parts of a key, into a span.
func decodeRange(table *rows.Table, r *spannerpb.KeyRange) (rows.Span, error) {
	var start, end *structpb.ListValue
	startOpen, endOpen := false, false
	switch bound := r.GetStartKeyType().(type) {
	case *spannerpb.KeyRange_StartClosed:
		start = bound.StartClosed
	case *spannerpb.KeyRange_StartOpen:
		start, startOpen = bound.StartOpen, true
	default:
		return rows.Span{}, status.Error(codes.InvalidArgument, "KeyRange has no start.")
	}
	switch bound := r.GetEndKeyType().(type) {
	case *spannerpb.KeyRange_EndClosed:
		end = bound.EndClosed
	case *spannerpb.KeyRange_EndOpen:
		end, endOpen = bound.EndOpen, true
	default:
		return rows.Span{}, status.Error(codes.InvalidArgument, "KeyRange has no end.")
	}
	from, err := encodeKey(table, start)
	if err != nil {
		return rows.Span{}, err
	}
	to, err := encodeKey(table, end)
	if err != nil {
		return rows.Span{}, err
	}
	span := rows.Span{From: from, To: rows.PrefixSpan(to).To}
	if startOpen {
		span.From = rows.PrefixSpan(from).To
	}
	if endOpen {
		span.To = to
	}
	return span, nil
}

// encodeKey encodes the first parts of a key.
func encodeKey(table *rows.Table, key *structpb.ListValue) (string, error) {
	if len(key.GetValues()) > len(table.Key) {
		return "", status.Errorf(codes.FailedPrecondition, "Wrong number of key parts in table %s. Expected at most: %d, got: %d.", table.Name, len(table.Key), len(key.GetValues()))
	}
	parts := make([]any, len(key.GetValues()))
	for i, value := range key.GetValues() {
		column := &table.Columns[table.Key[i].Column]
		decoded, ok := decodeValue(column.Kind, value)
		if !ok {
			return "", status.Errorf(codes.FailedPrecondition, "Invalid value for key part %s of table %s: Expected %s.", column.Name, table.Name, column.Kind)
		}
		parts[i] = decoded
	}
	return table.EncodePrefix(parts), nil
}

// inOrder sorts spans and joins those that overlap, so that a scan gives each row once, in key order.
func inOrder(spans []rows.Span) []rows.Span {
	spans = slices.DeleteFunc(spans, rows.Span.Empty)
	slices.SortFunc(spans, func(a, b rows.Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	joined := spans[:0]
	for _, span := range spans {
		if last := len(joined) - 1; last >= 0 && span.From < joined[last].To {
			joined[last] = joined[last].Hull(span)
			continue
		}
		joined = append(joined, span)
	}
	return joined
}
