package spanner

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// commitTimestampPlaceholder is what a client writes for "the timestamp of this commit".
const commitTimestampPlaceholder = "spanner.commit_timestamp()"

// typeCodes maps the kinds to the protocol's codes.
func typeCode(kind rows.Kind) spannerpb.TypeCode {
	switch kind {
	case rows.Bool:
		return spannerpb.TypeCode_BOOL
	case rows.Int64:
		return spannerpb.TypeCode_INT64
	case rows.Float64:
		return spannerpb.TypeCode_FLOAT64
	case rows.String:
		return spannerpb.TypeCode_STRING
	case rows.Bytes:
		return spannerpb.TypeCode_BYTES
	case rows.Timestamp:
		return spannerpb.TypeCode_TIMESTAMP
	default:
		return spannerpb.TypeCode_TYPE_CODE_UNSPECIFIED
	}
}

// kindOf is the inverse of typeCode; ok is false for a type that localcloud does not have.
func kindOf(code spannerpb.TypeCode) (kind rows.Kind, ok bool) {
	for kind := rows.Bool; kind <= rows.Timestamp; kind++ {
		if typeCode(kind) == code {
			return kind, true
		}
	}
	return 0, false
}

// encodeValue writes a cell as the protocol wants it.
func encodeValue(value any) *structpb.Value {
	switch v := value.(type) {
	case bool:
		return structpb.NewBoolValue(v)
	case int64:
		return structpb.NewStringValue(strconv.FormatInt(v, 10))
	case float64:
		return encodeFloat(v)
	case string:
		return structpb.NewStringValue(v)
	case []byte:
		return structpb.NewStringValue(base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return structpb.NewStringValue(v.UTC().Format(time.RFC3339Nano))
	default:
		return structpb.NewNullValue()
	}
}

func encodeFloat(f float64) *structpb.Value {
	switch {
	case math.IsNaN(f):
		return structpb.NewStringValue("NaN")
	case math.IsInf(f, 1):
		return structpb.NewStringValue("Infinity")
	case math.IsInf(f, -1):
		return structpb.NewStringValue("-Infinity")
	default:
		return structpb.NewNumberValue(f)
	}
}

// decodeValue reads a value of the kind; ok is false when it is of another type.
func decodeValue(kind rows.Kind, value *structpb.Value) (decoded any, ok bool) {
	switch v := value.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, true
	case *structpb.Value_BoolValue:
		return v.BoolValue, kind == rows.Bool
	case *structpb.Value_NumberValue:
		return v.NumberValue, kind == rows.Float64
	case *structpb.Value_StringValue:
		return decodeText(kind, v.StringValue)
	default:
		return nil, false
	}
}

// decodeText reads the kinds that travel as text.
func decodeText(kind rows.Kind, text string) (decoded any, ok bool) {
	switch kind {
	case rows.String:
		return text, true
	case rows.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case rows.Bytes:
		b, err := base64.StdEncoding.DecodeString(text)
		return b, err == nil
	case rows.Float64:
		switch text {
		case "NaN":
			return math.NaN(), true
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
		return nil, false
	case rows.Timestamp:
		t, err := time.Parse(time.RFC3339Nano, text)
		return t.UTC(), err == nil && strings.HasSuffix(text, "Z") // the protocol has UTC only
	default:
		return nil, false
	}
}

// decodeCell reads a value that is written to a column.
func decodeCell(table *rows.Table, column *rows.Column, value *structpb.Value) (any, error) {
	if column.Kind == rows.Timestamp && value.GetStringValue() == commitTimestampPlaceholder {
		return rows.PendingCommitTimestamp{}, nil
	}
	decoded, ok := decodeValue(column.Kind, value)
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "Invalid value for column %s in table %s: Expected %s.", column.Name, table.Name, column.Kind)
	}
	return decoded, nil
}
