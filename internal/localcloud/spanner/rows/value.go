package rows

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is a scalar type of Spanner.
type Kind uint8

// The kinds that columns can have here. The Go value of each stands beside it; NULL is nil for all of them.
const (
	Bool      Kind = iota + 1 // bool
	Int64                     // int64
	Float64                   // float64
	String                    // string, valid UTF-8
	Bytes                     // []byte
	Timestamp                 // time.Time in UTC
)

// String is the name of the kind in SQL.
func (k Kind) String() string {
	switch k {
	case Bool:
		return "BOOL"
	case Int64:
		return "INT64"
	case Float64:
		return "FLOAT64"
	case String:
		return "STRING"
	case Bytes:
		return "BYTES"
	case Timestamp:
		return "TIMESTAMP"
	default:
		return "UNKNOWN"
	}
}

// PendingCommitTimestamp is the value of a TIMESTAMP cell that gets the timestamp of its commit.
type PendingCommitTimestamp struct{}

// kindOf maps a declared type to its kind, or answers UNIMPLEMENTED with the type's name.
func kindOf(declared spansql.Type) (Kind, error) {
	if declared.Array {
		return 0, status.Errorf(codes.Unimplemented, "localcloud has no columns of type %s", declared.SQL())
	}
	switch declared.Base {
	case spansql.Bool:
		return Bool, nil
	case spansql.Int64:
		return Int64, nil
	case spansql.Float64:
		return Float64, nil
	case spansql.String:
		return String, nil
	case spansql.Bytes:
		return Bytes, nil
	case spansql.Timestamp:
		return Timestamp, nil
	default:
		return 0, status.Errorf(codes.Unimplemented, "localcloud has no columns of type %s", declared.SQL())
	}
}

// Compare orders two values of one kind as ORDER BY does: NULL first, then NaN, then the values.
func Compare(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	switch a := a.(type) {
	case bool:
		return cmp.Compare(boolRank(a), boolRank(b.(bool)))
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64)) // NaN sorts first there as well
	case string:
		return strings.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case time.Time:
		return a.Compare(b.(time.Time))
	default:
		return 0
	}
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// minTimestamp and maxTimestamp bound a TIMESTAMP: years 1 to 9999.
var (
	minTimestamp = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTimestamp = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
)

// canonicalFloat makes equal floats equal in their bits: one NaN, one zero.
func canonicalFloat(f float64) float64 {
	switch {
	case math.IsNaN(f):
		return math.NaN()
	case f == 0:
		return 0
	default:
		return f
	}
}
