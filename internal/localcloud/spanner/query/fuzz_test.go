package query

import (
	"errors"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// FuzzCompile runs whatever compiles over two rows. Nothing may panic, and each error has a code of the
// service.
func FuzzCompile(f *testing.F) {
	for _, sql := range []string{
		"SELECT * FROM T",
		"SELECT K, COUNT(*) AS n, MAX(V) FROM T WHERE K = @k AND (V > 1 OR V = 1 AND K > 'x') GROUP BY K ORDER BY n DESC LIMIT 3 OFFSET 1",
		"SELECT DISTINCT IF(V IS NULL, 'none', CAST(V AS STRING)) FROM T ORDER BY 1",
		"SELECT CASE WHEN V BETWEEN 1 AND 2 THEN -V ELSE V * 2 + 1 END FROM T WHERE K LIKE '%a_' AND V NOT IN (3, NULL)",
		"SELECT JSON_VALUE(K, '$.a[0].\"b\"'), COALESCE(NULL, V), AVG(V) / 0 FROM T",
		"SELECT TIMESTAMP_DIFF(A, TIMESTAMP_SUB(A, INTERVAL V DAY), SECOND), TIMESTAMP_TRUNC(A, DAY, 'UTC') FROM T t HAVING TRUE",
		"SELECT SUBSTR(K, V, 2) s, ROUND(F, V), GREATEST(V, 1.5), REGEXP_CONTAINS(K, K), MOD(V, 3) FROM T GROUP BY 1, 2, 3, 4, 5 HAVING s > '' ORDER BY s || 'x'",
		"SELECT CAST(CAST(Y AS STRING) AS BYTES), SAFE_CAST(K AS INT64), TIMESTAMP_SECONDS(V), NULLIF(V, 1) FROM T ORDER BY K",
		"SELECT K FROM T WHERE V IN UNNEST(@list) AND NOT K <> 'b'",
	} {
		f.Add(sql)
	}
	db := rows.New(nil)
	if err := db.ApplyDDL([]string{"CREATE TABLE T (K STRING(MAX), V INT64, F FLOAT64, B BOOL, Y BYTES(MAX), A TIMESTAMP) PRIMARY KEY (K, V DESC)"}); err != nil {
		f.Fatal(err)
	}
	table, err := db.Table("T")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := db.Commit(rows.Commit{Mutations: []rows.Mutation{{
		Op: rows.Insert, Table: table, Columns: []int{0, 1, 3, 2, 4, 5}, Rows: [][]any{{"a", int64(1), true, 1.5, []byte{0xff}, time.Unix(1e9, 1).UTC()}, {"b", nil, nil, nil, nil, nil}},
	}}}); err != nil {
		f.Fatal(err)
	}
	params := map[string]Param{"k": {Kind: rows.String, Value: "a"}, "list": {Kind: rows.Int64, Array: true, Value: []any{int64(1), nil}}}
	f.Fuzz(func(t *testing.T, sql string) {
		overdue := time.AfterFunc(5*time.Second, func() { panic("takes too long: " + strconv.Quote(sql)) })
		defer overdue.Stop()
		q, err := Compile(db, sql, params)
		if err == nil {
			err = q.Run(t.Context(), db.StrongTimestamp(), func(row []any) error {
				for i, value := range row {
					if !fits(q.Columns[i].Kind, value) {
						t.Errorf("%q: column %d of kind %v holds %T %v", sql, i, q.Columns[i].Kind, value, value)
					}
				}
				return nil
			})
		}
		if err == nil || errors.Is(err, t.Context().Err()) {
			return
		}
		switch code := status.Code(err); code {
		case codes.InvalidArgument, codes.Unimplemented, codes.OutOfRange:
		default:
			t.Errorf("%q: %v", sql, err)
		}
	})
}

// fits reports whether a value is one of the kind that the protocol can carry.
func fits(kind rows.Kind, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return kind == rows.Bool
	case int64:
		return kind == rows.Int64
	case float64:
		return kind == rows.Float64
	case string:
		return kind == rows.String && utf8.ValidString(v)
	case []byte:
		return kind == rows.Bytes
	case time.Time:
		return kind == rows.Timestamp && v.Year() >= 1 && v.Year() <= 9999
	default:
		return false
	}
}
