package query

import (
	"errors"
	"testing"

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
		"SELECT K FROM T WHERE V IN UNNEST(@list) AND NOT K <> 'b'",
	} {
		f.Add(sql)
	}
	db := rows.New()
	if err := db.ApplyDDL([]string{"CREATE TABLE T (K STRING(MAX), V INT64, F FLOAT64, B BOOL, Y BYTES(MAX), A TIMESTAMP) PRIMARY KEY (K, V DESC)"}); err != nil {
		f.Fatal(err)
	}
	table, err := db.Table("T")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := db.Commit(rows.Commit{Mutations: []rows.Mutation{{
		Op: rows.Insert, Table: table, Columns: []int{0, 1, 3}, Rows: [][]any{{"a", int64(1), true}, {"b", nil, nil}},
	}}}); err != nil {
		f.Fatal(err)
	}
	params := map[string]Param{"k": {Kind: rows.String, Value: "a"}, "list": {Kind: rows.Int64, Array: true, Value: []any{int64(1), nil}}}
	f.Fuzz(func(t *testing.T, sql string) {
		q, err := Compile(db, sql, params)
		if err == nil {
			err = q.Run(t.Context(), db.StrongTimestamp(), func([]any) error { return nil })
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
