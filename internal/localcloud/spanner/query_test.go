package spanner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

// query returns the rows as text, one string a row.
func query(t *testing.T, b *bundle, sql string, params map[string]any) ([]string, error) {
	t.Helper()
	got := []string{}
	err := b.client.Single().Query(t.Context(), gcp.Statement{SQL: sql, Params: params}).Do(func(row *gcp.Row) error {
		cells := make([]string, row.Size())
		for i := range cells {
			var cell gcp.GenericColumnValue
			if err := row.Column(i, &cell); err != nil {
				return err
			}
			cells[i] = fmt.Sprint(cell.Value.AsInterface())
		}
		got = append(got, strings.Join(cells, " "))
		return nil
	})
	return got, err
}

// seed stores 6 items of run r and one of another run.
func seed(t *testing.T, b *bundle) {
	t.Helper()
	for i, status := range []string{"OK", "OK", "FAILED", "OK", "FAILED", "OK"} {
		b.write(t, result{RunId: "r", Shard: int64(i / 2), ItemId: fmt.Sprintf("i%d", i), Status: status})
	}
	b.write(t, result{RunId: "other", Shard: 9, ItemId: "x", Status: "OK"})
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Update("Results",
		[]string{"RunId", "Shard", "ItemId", "Output", "ErrorClass", "ErrorMessage", "InferMillis"},
		[]any{"r", 1, "i2", nil, "invalid_input", "50% of it, or\nso", nil})}); err != nil {
		t.Fatal(err)
	}
}

func TestQueries(t *testing.T) {
	b := setup(t)
	seed(t, b)
	run := map[string]any{"run": "r"}
	after := map[string]any{"run": "r", "shard": 1, "item": "i2", "n": 2}
	tests := map[string]struct {
		sql    string
		params map[string]any
		want   []string
	}{
		// What status, export and verify ask.
		"export": {
			`SELECT ItemId, Status FROM Results WHERE RunId = @run ORDER BY Shard, ItemId`, run,
			[]string{"i0 OK", "i1 OK", "i2 FAILED", "i3 OK", "i4 FAILED", "i5 OK"},
		},
		"export of one status":                 {`SELECT ItemId FROM Results WHERE RunId = @run AND Status = @s ORDER BY Shard, ItemId`, map[string]any{"run": "r", "s": "FAILED"}, []string{"i2", "i4"}},
		"page":                                 {`SELECT ItemId FROM Results WHERE RunId = @run AND (Shard > @shard OR (Shard = @shard AND ItemId > @item)) ORDER BY Shard, ItemId LIMIT @n`, after, []string{"i3", "i4"}},
		"page with the condition turned round": {`SELECT ItemId FROM Results WHERE @run = RunId AND (@shard < Shard OR @shard = Shard AND @item < ItemId) ORDER BY Shard, ItemId LIMIT 1 OFFSET 1`, after, []string{"i4"}},
		"counts":                               {`SELECT Status, COUNT(*) AS n FROM Results WHERE RunId = @run GROUP BY Status`, run, []string{"FAILED 2", "OK 4"}},
		"first to last":                        {`SELECT MIN(CommittedAt) < MAX(CommittedAt), COUNT(*) FROM Results WHERE RunId = @run`, run, []string{"true 6"}},
		"no rows":                              {`SELECT COUNT(*), MAX(CommittedAt), SUM(InferMillis) FROM Results WHERE RunId = 'none'`, nil, []string{"0 <nil> <nil>"}},
		"no groups":                            {`SELECT Status, COUNT(*) FROM Results WHERE RunId = 'none' GROUP BY Status`, nil, []string{}},
		"some items":                           {`SELECT ItemId FROM Results WHERE RunId = @run AND ItemId IN UNNEST(@ids)`, map[string]any{"run": "r", "ids": []string{"i5", "i1", "nope"}}, []string{"i1", "i5"}},

		// What people look for.
		"star":                          {`SELECT * FROM Attempts`, nil, []string{}},
		"constant":                      {`SELECT 1, 'a', TRUE, NULL`, nil, []string{"1 a true <nil>"}},
		"alias":                         {`SELECT r.ItemId AS item FROM Results AS r WHERE r.RunId = 'r' ORDER BY item DESC LIMIT 2`, nil, []string{"i5", "i4"}},
		"position":                      {`SELECT Shard, ItemId FROM Results WHERE RunId = 'r' ORDER BY 1 DESC, 2 LIMIT 3`, nil, []string{"2 i4", "2 i5", "1 i2"}},
		"case does not matter":          {`select itemid from results where runid = 'r' and status = 'FAILED'`, nil, []string{"i2", "i4"}},
		"NULL is not equal":             {`SELECT ItemId FROM Results WHERE RunId = 'r' AND InferMillis = NULL`, nil, []string{}},
		"IS NULL":                       {`SELECT ItemId FROM Results WHERE RunId = 'r' AND InferMillis IS NULL`, nil, []string{"i2"}},
		"IS NOT NULL":                   {`SELECT COUNT(*) FROM Results WHERE RunId = 'r' AND InferMillis IS NOT NULL`, nil, []string{"5"}},
		"NOT of unknown":                {`SELECT ItemId FROM Results WHERE RunId = 'r' AND NOT (InferMillis > 2)`, nil, []string{"i0", "i1", "i3", "i4", "i5"}},
		"unknown OR true":               {`SELECT ItemId FROM Results WHERE RunId = 'r' AND (InferMillis > 2 OR Status = 'FAILED')`, nil, []string{"i2", "i4"}},
		"NOT IN":                        {`SELECT ItemId FROM Results WHERE RunId = 'r' AND Shard NOT IN (0, 2)`, nil, []string{"i2", "i3"}},
		"BETWEEN":                       {`SELECT ItemId FROM Results WHERE RunId = 'r' AND Shard BETWEEN 1 AND 2 AND Status = 'OK'`, nil, []string{"i3", "i5"}},
		"NOT BETWEEN":                   {`SELECT ItemId FROM Results WHERE RunId = 'r' AND Shard NOT BETWEEN 1 AND 2`, nil, []string{"i0", "i1"}},
		"LIKE":                          {`SELECT ItemId FROM Results WHERE ErrorMessage LIKE '50\\%%so'`, nil, []string{"i2"}},
		"LIKE with _":                   {`SELECT COUNT(*) FROM Results WHERE ItemId LIKE 'i_'`, nil, []string{"6"}},
		"DISTINCT":                      {`SELECT DISTINCT Status FROM Results ORDER BY Status`, nil, []string{"FAILED", "OK"}},
		"COUNT of a column":             {`SELECT COUNT(InferMillis), COUNT(DISTINCT Status), COUNTIF(Status = 'OK') FROM Results WHERE RunId = 'r'`, nil, []string{"5 2 4"}},
		"SUM, AVG, MIN, MAX":            {`SELECT SUM(Shard), AVG(Shard), MIN(ItemId), MAX(ItemId), SUM(InferMillis) FROM Results WHERE RunId = 'r'`, nil, []string{"6 1 i0 i5 7.5"}},
		"group by alias":                {`SELECT LOWER(Status) AS s, COUNT(*) FROM Results GROUP BY s ORDER BY COUNT(*) DESC`, nil, []string{"ok 5", "failed 2"}},
		"group by position":             {`SELECT RunId, Status, COUNT(*) FROM Results GROUP BY 1, 2 ORDER BY 1, 2`, nil, []string{"other OK 1", "r FAILED 2", "r OK 4"}},
		"arithmetic on groups":          {`SELECT 100 * COUNTIF(Status = 'OK') / COUNT(*) FROM Results WHERE RunId = 'other'`, nil, []string{"100"}},
		"JSON_VALUE":                    {`SELECT JSON_VALUE(Output, '$.label') FROM Results WHERE RunId = 'r' AND ItemId IN ('i1', 'i2') ORDER BY ItemId`, nil, []string{"7", "<nil>"}},
		"cast of JSON_VALUE":            {`SELECT COUNT(*) FROM Results WHERE RunId = 'r' AND CAST(JSON_VALUE(Output, '$.label') AS INT64) >= 7`, nil, []string{"5"}},
		"CASE":                          {`SELECT CASE Status WHEN 'OK' THEN 1 ELSE 0 END, CASE WHEN Shard > 1 THEN 'late' END FROM Results WHERE RunId = 'r' AND ItemId > 'i3'`, nil, []string{"0 late", "1 late"}},
		"IF, COALESCE, IFNULL":          {`SELECT IF(Shard = 1, 'one', 'other'), COALESCE(ErrorClass, 'none'), IFNULL(InferMillis, 0) FROM Results WHERE RunId = 'r' AND ItemId = 'i2'`, nil, []string{"one invalid_input 0"}},
		"timestamps":                    {`SELECT COUNT(*) FROM Results WHERE CommittedAt > @t AND CommittedAt <= CURRENT_TIMESTAMP()`, map[string]any{"t": time.Now().Add(-time.Hour)}, []string{"7"}},
		"timestamp text":                {`SELECT COUNT(*) FROM Results WHERE CommittedAt > '2026-01-01T00:00:00Z'`, nil, []string{"7"}},
		"LIMIT 0":                       {`SELECT ItemId FROM Results LIMIT 0`, nil, []string{}},
		"contradiction":                 {`SELECT ItemId FROM Results WHERE RunId = 'r' AND Shard > 2 AND Shard < 1`, nil, []string{}},
		"order the other way":           {`SELECT ItemId FROM Results WHERE RunId = 'r' ORDER BY Shard DESC, ItemId DESC LIMIT 2`, nil, []string{"i5", "i4"}},
		"order by what is not selected": {`SELECT ItemId FROM Results WHERE RunId = 'r' ORDER BY Status, ItemId DESC LIMIT 3`, nil, []string{"i4", "i2", "i5"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := query(t, b, test.sql, test.params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	b := setup(t)
	seed(t, b)
	tests := map[string]struct {
		sql  string
		code codes.Code
		text string
	}{
		"join":               {`SELECT a.ItemId FROM Results a JOIN Attempts b ON a.ItemId = b.ItemId`, codes.Unimplemented, "JOIN"},
		"two tables":         {`SELECT 1 FROM Results, Attempts`, codes.Unimplemented, "join"},
		"WITH":               {`WITH x AS (SELECT 1) SELECT * FROM x`, codes.Unimplemented, "WITH"},
		"UNION":              {`SELECT 1 UNION ALL SELECT 2`, codes.Unimplemented, "UNION"},
		"subquery":           {`SELECT ItemId FROM Results WHERE EXISTS(SELECT 1 FROM Attempts)`, codes.Unimplemented, "EXISTS"},
		"TABLESAMPLE":        {`SELECT ItemId FROM Results TABLESAMPLE RESERVOIR (1 ROWS)`, codes.Unimplemented, "TABLESAMPLE"},
		"information schema": {`SELECT table_name FROM information_schema.tables`, codes.Unimplemented, "INFORMATION_SCHEMA"},
		"function":           {`SELECT SHA256(Output) FROM Results`, codes.Unimplemented, "SHA256"},
		"aggregate":          {`SELECT STRING_AGG(ItemId) FROM Results`, codes.Unimplemented, "STRING_AGG"},
		"nothing":            {`SELECT`, codes.InvalidArgument, "Syntax"},
		"syntax":             {`SELEKT 1`, codes.InvalidArgument, "Syntax"},
		"HAVING alone":       {`SELECT ItemId FROM Results HAVING ItemId > 'a'`, codes.InvalidArgument, "HAVING"},
		"HAVING of a column": {`SELECT Status FROM Results GROUP BY Status HAVING Shard > 1`, codes.InvalidArgument, "neither grouped"},
		"star of another":    {`SELECT x.* FROM Results r`, codes.InvalidArgument, "x"},
		"text for a number":  {`SELECT 1 FROM Results WHERE Shard = '1'`, codes.InvalidArgument, "INT64, STRING"},
		"WHERE without FROM": {`SELECT 1 WHERE TRUE`, codes.InvalidArgument, "FROM"},
		"bad UTF-8":          {`SELECT CAST(b'\xff' AS STRING)`, codes.OutOfRange, "STRING"},
		"timestamp as text":  {`SELECT CAST(CommittedAt AS STRING) FROM Results`, codes.Unimplemented, "TIMESTAMP to STRING"},
		"day of the month":   {`SELECT TIMESTAMP_TRUNC(CommittedAt, MONTH) FROM Results`, codes.Unimplemented, "MONTH"},
		"other literals":     {`SELECT Status = 'ok' FROM Results GROUP BY Status = 'OK'`, codes.InvalidArgument, "neither grouped"},
		"unknown table":      {`SELECT 1 FROM Nope`, codes.InvalidArgument, "Table not found: Nope"},
		"unknown column":     {`SELECT Nope FROM Results`, codes.InvalidArgument, "Unrecognized name: Nope"},
		"unknown parameter":  {`SELECT 1 FROM Results WHERE RunId = @nope`, codes.InvalidArgument, "@nope"},
		"types do not fit":   {`SELECT 1 FROM Results WHERE Shard = ItemId`, codes.InvalidArgument, "INT64, STRING"},
		"column not grouped": {`SELECT ItemId, COUNT(*) FROM Results`, codes.InvalidArgument, "neither grouped"},
		"aggregate in WHERE": {`SELECT 1 FROM Results WHERE COUNT(*) > 1`, codes.InvalidArgument, "not allowed"},
		"WHERE is no BOOL":   {`SELECT 1 FROM Results WHERE Shard`, codes.InvalidArgument, "BOOL"},
		"negative LIMIT":     {`SELECT 1 FROM Results LIMIT @n`, codes.InvalidArgument, "non-negative"},
		"division by zero":   {`SELECT 1 / 0`, codes.OutOfRange, "division"},
		"overflow":           {`SELECT 9223372036854775807 + 1`, codes.OutOfRange, "overflow"},
		"too deep":           {"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), codes.InvalidArgument, "nested"},
		"too many NOTs":      {"SELECT " + strings.Repeat("NOT ", 200_000) + "TRUE", codes.InvalidArgument, "nested"},
		"too many terms":     {"SELECT " + strings.Repeat("1+", 400_000) + "1", codes.InvalidArgument, "nested"},
		"too many CASEs":     {"SELECT " + strings.Repeat("CASE ", 150_000), codes.InvalidArgument, "nested"},
		"too long":           {"SELECT " + strings.Repeat("1, ", 400_000) + "1", codes.InvalidArgument, "length"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			params := map[string]any{}
			if strings.Contains(test.sql, "@n ") || strings.HasSuffix(test.sql, "@n") {
				params["n"] = -1
			}
			got, err := query(t, b, test.sql, params)
			if gcp.ErrCode(err) != test.code || !strings.Contains(gcp.ErrDesc(err), test.text) {
				t.Errorf("query = %v, %v, want %v with %q", got, err, test.code, test.text)
			}
		})
	}
}

// A long result comes in chunks with resume tokens, so the client need not hold all of it back.
func TestLongStreams(t *testing.T) {
	const n = 3000
	b := setup(t, everythingTable)
	var mutations []*gcp.Mutation
	for i := range n {
		mutations = append(mutations, gcp.Insert("Everything", []string{"Id", "Big"}, []any{i, strings.Repeat("x", 2000)}))
	}
	if _, err := b.client.Apply(t.Context(), mutations); err != nil {
		t.Fatal(err)
	}
	for name, iter := range map[string]*gcp.RowIterator{
		"read":  b.client.Single().Read(t.Context(), "Everything", gcp.AllKeys(), []string{"Id", "Big"}),
		"query": b.client.Single().Query(t.Context(), gcp.NewStatement("SELECT Id, Big FROM Everything ORDER BY Id")),
	} {
		next := int64(0)
		if err := iter.Do(func(row *gcp.Row) error {
			var id int64
			if err := row.Column(0, &id); err != nil {
				return err
			}
			if id != next {
				return fmt.Errorf("row %d came where %d was due", id, next)
			}
			next++
			return nil
		}); err != nil || next != n {
			t.Errorf("%s: %d rows, %v, want %d", name, next, err, n)
		}
	}
}
