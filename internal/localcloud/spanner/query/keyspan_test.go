package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// keyed returns a database with a table of three key columns, NULLs and both directions among them.
func keyed(t *testing.T) *rows.DB {
	t.Helper()
	db := rows.New(nil)
	if err := db.ApplyDDL([]string{"CREATE TABLE T (R STRING(MAX), S INT64, I STRING(MAX), V INT64) PRIMARY KEY (R, S, I DESC)"}); err != nil {
		t.Fatal(err)
	}
	table, err := db.Table("T")
	if err != nil {
		t.Fatal(err)
	}
	m := rows.Mutation{Op: rows.Insert, Table: table, Columns: []int{0, 1, 2, 3}}
	for _, r := range []any{nil, "", "a", "b"} {
		for _, s := range []any{nil, int64(-1), int64(0), int64(2)} {
			for _, i := range []any{nil, "a", "a\x00", "b"} {
				m.Rows = append(m.Rows, []any{r, s, i, int64(len(m.Rows) % 3)})
			}
		}
	}
	if _, err := db.Commit(rows.Commit{Mutations: []rows.Mutation{m}}); err != nil {
		t.Fatal(err)
	}
	return db
}

// condition makes a random condition over the key and a value column.
func condition(rng *rand.Rand, depth int) string {
	if depth > 0 && rng.IntN(3) > 0 {
		left, right := condition(rng, depth-1), condition(rng, depth-1)
		switch rng.IntN(7) {
		case 0:
			return "NOT (" + left + ")"
		case 1, 2:
			return "(" + left + " OR " + right + ")"
		default:
			return left + " AND " + right
		}
	}
	columns := map[string][]string{
		"R": {"''", "'a'", "'b'", "'z'", "NULL"}, "S": {"-1", "0", "1", "2", "NULL"},
		"I": {"'a'", "'a\\000'", "'b'"}, "V": {"0", "1", "1 + 1"},
	}
	column := []string{"R", "R", "S", "S", "I", "V"}[rng.IntN(6)]
	pick := func() string { return columns[column][rng.IntN(len(columns[column]))] }
	switch rng.IntN(8) {
	case 0:
		return column + " BETWEEN " + pick() + " AND " + pick()
	case 1:
		return column + " IS NULL"
	case 2:
		return column + " IN (" + pick() + ", " + pick() + ")"
	case 3:
		return pick() + []string{" < ", " <= ", " = ", " > ", " >= "}[rng.IntN(5)] + column
	default:
		return column + []string{" < ", " <= ", " = ", " = ", " > ", " >= ", " != "}[rng.IntN(7)] + pick()
	}
}

func collect(t *testing.T, db *rows.DB, q *Query) []string {
	t.Helper()
	var got []string
	if err := q.Run(t.Context(), db.StrongTimestamp(), func(row []any) error {
		got = append(got, fmt.Sprintf("%q", row))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// Bounds on the key are a short cut: with and without them a query must answer the same.
func TestKeySpansLoseNoRow(t *testing.T) {
	db := keyed(t)
	rng := rand.New(rand.NewPCG(1, 2))
	narrowed := 0
	for range 5000 {
		sql := "SELECT R, S, I, V FROM T WHERE " + condition(rng, 3)
		q, err := Compile(db, sql, nil)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if q.spans[0] != rows.All() {
			narrowed++
		}
		got := collect(t, db, q)
		q.spans = []rows.Span{rows.All()}
		if diff := cmp.Diff(collect(t, db, q), got); diff != "" {
			t.Fatalf("%s (-all rows +by key):\n%s", sql, diff)
		}
	}
	if narrowed < 500 {
		t.Errorf("only %d queries were narrowed: the test proves little", narrowed)
	}
}

// An ORDER BY that is taken to be the scan's own order must be it.
func TestKeyOrderIsTheOrder(t *testing.T) {
	db := keyed(t)
	rng := rand.New(rand.NewPCG(3, 4))
	streamed := 0
	for range 3000 {
		var order []string
		for _, column := range [][]string{{"R", "R DESC"}, {"S", "S DESC"}, {"I DESC", "I"}} {
			if rng.IntN(3) > 0 {
				order = append(order, column[max(rng.IntN(4)-2, 0)])
			}
		}
		if len(order) == 0 {
			continue
		}
		sql := "SELECT R, S, I FROM T WHERE " + condition(rng, 2) + " ORDER BY " + strings.Join(order, ", ")
		q, err := Compile(db, sql, nil)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if len(q.order) > 0 {
			continue
		}
		streamed++
		sorted, err := Compile(db, sql, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range order {
			name, _, desc := strings.Cut(by, " ")
			i := slices.Index([]string{"R", "S", "I"}, name)
			sorted.order = append(sorted.order, ordering{expr: sorted.selected[i], desc: desc})
		}
		if diff := cmp.Diff(collect(t, db, sorted), collect(t, db, q)); diff != "" {
			t.Fatalf("%s (-sorted +streamed):\n%s", sql, diff)
		}
	}
	if streamed < 300 {
		t.Errorf("only %d queries streamed: the test proves little", streamed)
	}
}
