package parse

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/spanner/spansql"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// show writes an expression with parentheses around every operator.
func show(e spansql.Expr) string {
	switch e := e.(type) {
	case spansql.Paren:
		return show(e.Expr)
	case spansql.LogicalOp:
		if e.Op == spansql.Not {
			return "(NOT " + show(e.RHS) + ")"
		}
		return "(" + show(e.LHS) + pick(e.Op == spansql.And, " AND ", " OR ") + show(e.RHS) + ")"
	case spansql.ArithOp:
		for _, l := range levels {
			for _, o := range l {
				if e.LHS != nil && o.op == e.Op {
					return "(" + show(e.LHS) + o.symbol + show(e.RHS) + ")"
				}
			}
		}
		return "(-" + show(e.RHS) + ")"
	case spansql.IsOp:
		return "(" + show(e.LHS) + pick(e.Neg, " IS NOT ", " IS ") + "x)"
	case spansql.ComparisonOp:
		if e.RHS2 != nil {
			return "(" + show(e.LHS) + pick(e.Op == spansql.NotBetween, " NOT", "") + " BETWEEN " + show(e.RHS) + " AND " + show(e.RHS2) + ")"
		}
		return "(" + show(e.LHS) + " cmp " + show(e.RHS) + ")"
	default:
		return e.SQL()
	}
}

func TestPrecedence(t *testing.T) {
	for sql, want := range map[string]string{
		"a - b + c":                     "((a-b)+c)",
		"a / b * c":                     "((a/b)*c)",
		"a - b - c":                     "((a-b)-c)",
		"a + b * c":                     "(a+(b*c))",
		"a || b + c":                    "((a||b)+c)",
		"- a * b":                       "((-a)*b)",
		"a - -1":                        "(a--1)",
		"NOT a AND b":                   "((NOT a) AND b)",
		"NOT a = 1 OR b = 2":            "((NOT (a cmp 1)) OR (b cmp 2))",
		"NOT NOT a":                     "(NOT (NOT a))",
		"a OR b AND c":                  "(a OR (b AND c))",
		"(a OR b) AND c":                "((a OR b) AND c)",
		"a BETWEEN 1 AND 2 AND b":       "((a BETWEEN 1 AND 2) AND b)",
		"a NOT BETWEEN b + 1 AND c - 1": "(a NOT BETWEEN (b+1) AND (c-1))",
		"a IS NULL AND NOT b":           "((a IS x) AND (NOT b))",
		"a + 1 IS NOT NULL OR c":        "(((a+1) IS NOT x) OR c)",
	} {
		q, err := Select("SELECT " + sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if got := show(q.List[0].Expr); got != want {
			t.Errorf("%s is read as %s, want %s", sql, got, want)
		}
	}
}

func TestLiterals(t *testing.T) {
	for sql, want := range map[string]spansql.Expr{
		`'it'`:                   spansql.StringLiteral("it"),
		`"a\tb\"'"`:              spansql.StringLiteral("a\tb\"'"),
		`r'\d+'`:                 spansql.StringLiteral(`\d+`),
		`'\xff\u00e9\U0001F600'`: spansql.StringLiteral("ÿé😀"),
		`'\101'`:                 spansql.StringLiteral("A"),
		`b'\xff\101a'`:           spansql.BytesLiteral("\xffAa"),
		`Rb"\x"`:                 spansql.BytesLiteral(`\x`),
		"'''two\nlines'''":       spansql.StringLiteral("two\nlines"),
		`""`:                     spansql.StringLiteral(""),
		"-9223372036854775808":   spansql.IntegerLiteral(-1 << 63),
		"0xFF":                   spansql.IntegerLiteral(255),
		"007":                    spansql.IntegerLiteral(7),
		"1e3":                    spansql.FloatLiteral(1000),
		".5":                     spansql.FloatLiteral(0.5),
		"5.":                     spansql.FloatLiteral(5),
		"@P":                     spansql.Param("P"),
		"`a b`":                  spansql.ID("a b"),
		"1 -- one":               spansql.IntegerLiteral(1),
		"/* a */ 1 # one":        spansql.IntegerLiteral(1),
		"1\r\n;":                 spansql.IntegerLiteral(1),
		"[1, 2]":                 spansql.Array{spansql.IntegerLiteral(1), spansql.IntegerLiteral(2)},
	} {
		q, err := Select("SELECT " + sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if diff := cmp.Diff(want, q.List[0].Expr); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-02T03:04:05Z":                      "2026-01-02T03:04:05Z",
		"2026-01-02 03:04:05.123456789+02:30":       "2026-01-02T00:34:05.123456789Z",
		"2026-01-02 03:04:05-08":                    "2026-01-02T11:04:05Z",
		"2026-1-2":                                  "2026-01-02T08:00:00Z",
		"2026-07-02 00:00:00":                       "2026-07-02T07:00:00Z",
		"2026-01-02 03:04:05 UTC":                   "2026-01-02T03:04:05Z",
		"2026-01-02 03:04:05 Europe/Berlin":         "2026-01-02T02:04:05Z",
		"2026-01-02 03:04:05 America/Port_of_Spain": "2026-01-02T07:04:05Z",
		"2026-01-02+00":                             "2026-01-02T00:00:00Z",
		"yesterday":                                 "",
		"2026-13-02":                                "",
		"2026-01-02 03:04:05 Nowhere":               "",
		"2026-01-02 03:04:05+99":                    "",
		"":                                          "",
	} {
		got := ""
		if moment, ok := Timestamp(text); ok {
			got = moment.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("Timestamp(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestClauses(t *testing.T) {
	q, err := Select("select distinct r.Status s, count(*) AS n, r.* from Results r where r.RunId = @run group by s having n > 1 order by n desc, 1 asc limit 10 offset @o;")
	if err != nil {
		t.Fatal(err)
	}
	want := &Query{
		Distinct: true,
		List: []Item{
			{Expr: spansql.PathExp{"r", "Status"}, Alias: "s"},
			{Expr: spansql.Func{Name: "COUNT", Args: []spansql.Expr{spansql.Star}}, Alias: "n"},
			{Star: true, Of: "r"},
		},
		Table: "Results", Alias: "r",
		Where:   spansql.ComparisonOp{Op: spansql.Eq, LHS: spansql.PathExp{"r", "RunId"}, RHS: spansql.Param("run")},
		GroupBy: []spansql.Expr{spansql.ID("s")},
		Having:  spansql.ComparisonOp{Op: spansql.Gt, LHS: spansql.ID("n"), RHS: spansql.IntegerLiteral(1)},
		Order:   []spansql.Order{{Expr: spansql.ID("n"), Desc: true}, {Expr: spansql.IntegerLiteral(1)}},
		Limit:   spansql.IntegerLiteral(10), Offset: spansql.Param("o"),
	}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		code codes.Code
		text string
	}{
		"SELECT 1 +":                                        {codes.InvalidArgument, "end of statement"},
		"SELECT a b c":                                      {codes.InvalidArgument, "[at 1:12]"},
		"SELECT\n  FROM T":                                  {codes.InvalidArgument, "[at 2:3]"},
		"SELECT 'a":                                         {codes.InvalidArgument, "Unclosed string"},
		"SELECT 'a\nb'":                                     {codes.InvalidArgument, "Unclosed string"},
		"SELECT `":                                          {codes.InvalidArgument, "Unclosed"},
		"SELECT ``":                                         {codes.InvalidArgument, "empty identifier"},
		`SELECT '\q'`:                                       {codes.InvalidArgument, "escape"},
		`SELECT '\ud800'`:                                   {codes.InvalidArgument, "escape"},
		"SELECT 12abc":                                      {codes.InvalidArgument, "whitespace"},
		"SELECT 1e":                                         {codes.InvalidArgument, "floating point"},
		"SELECT 9223372036854775808":                        {codes.InvalidArgument, "integer"},
		"SELECT $1":                                         {codes.InvalidArgument, "'$'"},
		"SELECT 1 /* open":                                  {codes.InvalidArgument, "comment"},
		"SELECT a < b < c":                                  {codes.InvalidArgument, "parentheses"},
		"SELECT group FROM T":                               {codes.InvalidArgument, `"group"`},
		"SELECT 1 FROM T WHERE":                             {codes.InvalidArgument, "end of statement"},
		"SELECT 1; SELECT 2":                                {codes.InvalidArgument, `"SELECT"`},
		"SELECT 1 FROM T LIMIT 'x'":                         {codes.InvalidArgument, "integer"},
		"SELECT CASE END":                                   {codes.InvalidArgument, "END"},
		"SELECT TIMESTAMP 'soon'":                           {codes.InvalidArgument, "TIMESTAMP"},
		"SELECT 1 FROM A, B":                                {codes.Unimplemented, "join"},
		"SELECT 1 FROM A LEFT JOIN B ON TRUE":               {codes.Unimplemented, "LEFT"},
		"SELECT 1 FROM A a JOIN B b ON TRUE":                {codes.Unimplemented, "JOIN"},
		"SELECT 1 FROM (SELECT 1)":                          {codes.Unimplemented, "subquery"},
		"SELECT (SELECT 1)":                                 {codes.Unimplemented, "subquery"},
		"SELECT 1 FROM T WHERE a IN (SELECT 1)":             {codes.Unimplemented, "subquery"},
		"SELECT 1 FROM T@{FORCE_INDEX=I}":                   {codes.Unimplemented, "@{"},
		"SELECT * EXCEPT (a) FROM T":                        {codes.Unimplemented, "EXCEPT"},
		"SELECT 1 UNION ALL SELECT 2":                       {codes.Unimplemented, "UNION"},
		"SELECT SUM(a) OVER () FROM T":                      {codes.Unimplemented, "OVER"},
		"SELECT STRING_AGG(a ORDER BY b) FROM T":            {codes.Unimplemented, "ORDER in STRING_AGG"},
		"SELECT a[OFFSET(0)] FROM T":                        {codes.Unimplemented, "subscript"},
		"SELECT DATE '2026-01-01'":                          {codes.Unimplemented, "DATE"},
		"SELECT CAST(a AS NUMERIC) FROM T":                  {codes.Unimplemented, "NUMERIC"},
		"SELECT SAFE.SUBSTR(a, 1) FROM T":                   {codes.Unimplemented, "SAFE"},
		"SELECT EXTRACT(YEAR FROM a) FROM T":                {codes.Unimplemented, "EXTRACT"},
		"SELECT 1 FROM T ORDER BY a NULLS LAST":             {codes.Unimplemented, "NULLS"},
		"SELECT 1 FROM T GROUP BY ROLLUP (a)":               {codes.Unimplemented, "ROLLUP"},
		"SELECT a IS DISTINCT FROM b FROM T":                {codes.Unimplemented, "IS DISTINCT"},
		"SELECT ?":                                          {codes.Unimplemented, "positional"},
		"WITH x AS (SELECT 1) SELECT 1 FROM x":              {codes.Unimplemented, "WITH"},
		"FROM T |> WHERE TRUE":                              {codes.Unimplemented, "FROM"},
		"SELECT 1 FROM T FOR UPDATE":                        {codes.Unimplemented, "FOR"},
		"SELECT 1 FROM T TABLESAMPLE BERNOULLI (1 PERCENT)": {codes.Unimplemented, "TABLESAMPLE"},
		"SELECT " + strings.Repeat("(", 5000):               {codes.InvalidArgument, "nested"},
		"SELECT " + strings.Repeat("-", 5000) + "1":         {codes.InvalidArgument, "end of statement"}, // a comment
		"SELECT " + strings.Repeat("- ", 5000) + "a":        {codes.InvalidArgument, "nested"},
		"SELECT " + strings.Repeat("[", 5000):               {codes.InvalidArgument, "nested"},
		"SELECT " + strings.Repeat("1+", 20_000) + "1":      {codes.InvalidArgument, "nested"},
	}
	for sql, want := range tests {
		_, err := Select(sql)
		if status.Code(err) != want.code || !strings.Contains(status.Convert(err).Message(), want.text) {
			t.Errorf("%.60s: %v, want %v with %q", sql, err, want.code, want.text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SELECT a, COUNT(*) n FROM T t WHERE NOT a IN (1, @p) AND b LIKE r'%\\_' GROUP BY 1 HAVING n > 0x1F ORDER BY 2 DESC LIMIT 3 OFFSET 1 -- end")
	f.Add("SELECT CASE a WHEN b'\\xff' THEN IF(TRUE, NULL, -.5e-3) END, TIMESTAMP '2026-01-02 03:04:05 Europe/Berlin' FROM `T`")
	f.Add("INSERT OR UPDATE INTO T (a, `b`) VALUES (1, DEFAULT), (@p, PENDING_COMMIT_TIMESTAMP())")
	f.Add("UPDATE T AS t SET t.a = a + 1, b = NULL WHERE TRUE; -- all")
	f.Fuzz(func(t *testing.T, sql string) {
		_, selectErr := Select(sql)
		_, changeErr := DML(sql)
		for _, err := range []error{selectErr, changeErr} {
			if code := status.Code(err); code != codes.OK && code != codes.InvalidArgument && code != codes.Unimplemented {
				t.Errorf("%q: %v", sql, err)
			}
		}
	})
}
