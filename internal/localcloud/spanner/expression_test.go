package spanner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What users type to look at their results.
func TestUsersQueries(t *testing.T) {
	b := setup(t)
	seed(t, b)
	tests := map[string]struct {
		sql    string
		params map[string]any
		want   []string
	}{
		"alias without AS":        {`SELECT r.ItemId item FROM Results r WHERE r.Shard = 2 ORDER BY item`, nil, []string{"i4", "i5"}},
		"star of an alias":        {`SELECT a.* FROM Attempts a`, nil, []string{}},
		"trailing semicolon":      {"SELECT COUNT(*) FROM Runs;\n", nil, []string{"0"}},
		"comments, CRLF":          {"SELECT COUNT(*) -- all\r\n/* of */ FROM Results # them", nil, []string{"7"}},
		"HAVING":                  {`SELECT Status FROM Results GROUP BY Status HAVING COUNT(*) > 2`, nil, []string{"OK"}},
		"HAVING an alias":         {`SELECT RunId, COUNT(*) n FROM Results GROUP BY RunId HAVING n < 3 AND RunId <> 'x'`, nil, []string{"other 1"}},
		"HAVING without a group":  {`SELECT COUNT(*) FROM Results HAVING COUNT(*) > 100`, nil, []string{}},
		"group in two spellings":  {`SELECT r.Status, COUNT(*) FROM Results r WHERE RunId = 'r' GROUP BY Status ORDER BY r.Status`, nil, []string{"FAILED 2", "OK 4"}},
		"group in parentheses":    {`SELECT (Shard + 1) * 2 FROM Results WHERE RunId = 'r' GROUP BY Shard + 1 ORDER BY 1`, nil, []string{"2", "4", "6"}},
		"order by an aggregate":   {`SELECT Status FROM Results GROUP BY Status ORDER BY COUNT(*) DESC, Status LIMIT 1`, nil, []string{"OK"}},
		"order by alias + 1":      {`SELECT ItemId, -Shard AS s FROM Results WHERE RunId = 'r' ORDER BY s + 1, ItemId DESC LIMIT 2`, nil, []string{"i5 -2", "i4 -2"}},
		"an alias hides a column": {`SELECT -Shard AS Shard FROM Results WHERE RunId = 'r' ORDER BY Shard LIMIT 1`, nil, []string{"-2"}},
		"by label":                {`SELECT JSON_VALUE(Output, '$.label') label, COUNT(*) n FROM Results WHERE RunId = @run AND Status = 'OK' GROUP BY label ORDER BY n DESC`, map[string]any{"run": "r"}, []string{"7 4"}},
		"NOT binds tighter":       {`SELECT ItemId FROM Results WHERE NOT Status = 'OK' AND RunId = 'r'`, nil, []string{"i2", "i4"}},
		"errors":                  {`SELECT ErrorClass, COUNT(*) FROM Results WHERE ErrorMessage LIKE '%it%' AND ErrorClass IS NOT NULL GROUP BY 1`, nil, []string{"invalid_input 1"}},
		"last hour":               {`SELECT COUNT(*) FROM Results WHERE CommittedAt > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)`, nil, []string{"7"}},
		"since a literal":         {`SELECT COUNT(*) FROM Results WHERE CommittedAt >= TIMESTAMP '2026-01-01T00:00:00Z' AND CommittedAt < '9000-01-01'`, nil, []string{"7"}},
		"since a parameter":       {`SELECT COUNT(*) FROM Results WHERE CommittedAt BETWEEN @a AND @b`, map[string]any{"a": time.Unix(0, 0), "b": time.Now().Add(time.Hour)}, []string{"7"}},
		"seconds of a run":        {`SELECT TIMESTAMP_DIFF(MAX(CommittedAt), MIN(CommittedAt), HOUR) FROM Results`, nil, []string{"0"}},
		"rate":                    {`SELECT ROUND(SAFE_DIVIDE(COUNT(*), 3), 2) FROM Results`, nil, []string{"2.33"}},
		"IN a list":               {`SELECT ItemId FROM Results WHERE ItemId IN ('i1', 'i3', 'x') ORDER BY ItemId`, nil, []string{"i1", "i3", "x"}},
		"IN an array":             {`SELECT ItemId FROM Results WHERE ItemId IN UNNEST(['i1']) OR Shard IN UNNEST(@s)`, map[string]any{"s": []int64{9}}, []string{"x", "i1"}},
		"STARTS_WITH":             {`SELECT COUNT(*) FROM Results WHERE STARTS_WITH(ItemId, 'i')`, nil, []string{"6"}},
		"parameter in other case": {`SELECT COUNT(*) FROM Results WHERE RunId = @RUN`, map[string]any{"run": "r"}, []string{"6"}},
		"DISTINCT of two":         {`SELECT DISTINCT Status, Shard > 0 FROM Results WHERE RunId = 'r' ORDER BY 1, 2`, nil, []string{"FAILED true", "OK false", "OK true"}},
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

func TestExpressions(t *testing.T) {
	b := setup(t)
	for sql, want := range map[string]string{
		// Operators.
		"10 - 2 + 3": "11", "100 / 10 * 10": "100", "NOT FALSE AND FALSE": "false", "- -3": "3",
		"1 + 2 * 3": "7", "'a' || 'b' || 'c'": "abc", "7 / 2": "3.5", "NULL + 1": "<nil>",
		"1 < 2 AND 2 <= 2 AND 3 <> 4 AND 3 != 4": "true", "NULL = NULL": "<nil>", "NULL IS NULL": "true",
		"1 IN (2, NULL)": "<nil>", "1 IN (1, NULL)": "true", "1 NOT IN UNNEST([2, 3])": "true",
		"'a_c' LIKE 'a\\\\_c'": "true", "'abc' LIKE 'a\\\\_c'": "false", "'a\\nc' LIKE 'a%c'": "true",
		"TRUE IS NOT FALSE": "true", "'\\xe9'": "é",

		// Text.
		"LENGTH('äö')": "2", "BYTE_LENGTH('äö')": "4", "LENGTH(b'\\xff')": "1", "UPPER('ä')": "Ä",
		"SUBSTR('apple', 2)": "pple", "SUBSTR('apple', 2, 2)": "pp", "SUBSTR('apple', -2)": "le", "SUBSTR('apple', 0, 2)": "ap",
		"SUBSTR('apple', -9)": "apple", "SUBSTR('apple', 9)": "", "SUBSTR(NULL, 1)": "<nil>",
		"TRIM('  a ')": "a", "LTRIM('xxa', 'x')": "a", "RTRIM('ay', 'xy')": "a", "REPLACE('abab', 'b', 'c')": "acac",
		"STRPOS('foo@bar', '@')": "4", "STRPOS('foo', 'x')": "0", "CONCAT('a', NULL)": "<nil>", "ENDS_WITH('abc', 'bc')": "true",
		"REGEXP_CONTAINS('item-042', r'^item-\\d+$')": "true",

		// Numbers.
		"ABS(-3)": "3", "ABS(-2.5)": "2.5", "MOD(-7, 3)": "-1", "DIV(-7, 2)": "-3", "ROUND(2.5)": "3", "ROUND(-2.5)": "-3",
		"ROUND(2.675, 2)": "2.67", "ROUND(1234, -2)": "1200", "FLOOR(-1.5)": "-2", "CEIL(1.2)": "2", "TRUNC(-1.7)": "-1",
		"SAFE_DIVIDE(1, 0)": "<nil>", "GREATEST(1, 3, 2)": "3", "LEAST('b', 'a')": "a", "GREATEST(1, NULL)": "<nil>",

		// Conditions.
		"IF(NULL, 1, 2)": "2", "COALESCE(NULL, 'x')": "x", "NULLIF(1, 1)": "<nil>", "NULLIF(2, 1)": "2", "IFNULL(NULL, 1.5)": "1.5",
		"CASE 2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END": "two",

		// Conversions.
		"CAST('017' AS INT64)": "17", "CAST('-0x1F' AS INT64)": "-31", "SAFE_CAST('0b1' AS INT64)": "<nil>", "SAFE_CAST('1_0' AS FLOAT64)": "<nil>",
		"CAST(1234567.0 AS STRING)": "1234567", "CAST(0.1 AS STRING)": "0.1", "CAST(1e20 AS STRING)": "1e+20", "CAST('-inf' AS FLOAT64)": "-Infinity",
		"CAST(CAST('nan' AS FLOAT64) AS STRING)": "nan", "CAST(2.5 AS INT64)": "3", "CAST(TRUE AS INT64)": "1", "SAFE_CAST(b'\\xff' AS STRING)": "<nil>",
		"CAST('2026-01-02 00:00:00+00' AS TIMESTAMP)": "2026-01-02T00:00:00Z",

		// Moments.
		"TIMESTAMP '2026-07-01'": "2026-07-01T07:00:00Z",
		"TIMESTAMP_ADD(TIMESTAMP '2026-01-01 00:00:00Z', INTERVAL 90 SECOND)":           "2026-01-01T00:01:30Z",
		"TIMESTAMP_SUB(TIMESTAMP '2026-01-01 00:00:00Z', INTERVAL 1 + 1 DAY)":           "2025-12-30T00:00:00Z",
		"TIMESTAMP_SUB(TIMESTAMP '2026-01-01 00:00:00Z', INTERVAL 1 NANOSECOND)":        "2025-12-31T23:59:59.999999999Z",
		"TIMESTAMP_DIFF('2026-01-01 01:59:59Z', '2026-01-01 00:00:00Z', HOUR)":          "1",
		"TIMESTAMP_DIFF('2026-01-01 00:00:00Z', '2026-01-01 00:00:00.5Z', MILLISECOND)": "-500",
		"TIMESTAMP_TRUNC(TIMESTAMP '2026-01-01 12:34:56.7Z', MINUTE)":                   "2026-01-01T12:34:00Z",
		"TIMESTAMP_TRUNC(TIMESTAMP '2026-01-01 12:34:56Z', DAY, 'Asia/Kolkata')":        "2025-12-31T18:30:00Z",
		"TIMESTAMP_TRUNC(TIMESTAMP '2026-01-01 05:00:00Z', DAY)":                        "2025-12-31T08:00:00Z",
		"UNIX_SECONDS(TIMESTAMP '1969-12-31 23:59:59.5Z')":                              "-1",
		"TIMESTAMP_MILLIS(-1)": "1969-12-31T23:59:59.999Z",

		// JSON.
		`JSON_VALUE('{"a": {"b": [10, 2.50, "x"]}}', '$.a.b[1]')`: "2.50",
		`JSON_VALUE('{"a": {"b": [10, 2.50, "x"]}}', '$.a.b[2]')`: "x",
		`JSON_VALUE('{"a": {"b": []}}', '$.a.b[0]')`:              "<nil>",
		`JSON_VALUE('{"a": {"b": 1}}', '$.a')`:                    "<nil>",
		`JSON_VALUE('{"a b": true}', '$."a b"')`:                  "true",
		`JSON_VALUE('{"a": 1, "a": 2}', '$.a')`:                   "1",
		`JSON_VALUE('"whole"')`:                                   "whole",
		`JSON_VALUE('7', '$')`:                                    "7",
		`JSON_VALUE('{"a": null}', '$.a')`:                        "<nil>",
		`JSON_VALUE('{"a": 1} rest', '$.a')`:                      "<nil>",
		`JSON_VALUE('not JSON', '$.a')`:                           "<nil>",
	} {
		got, err := query(t, b, "SELECT "+sql, nil)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

// An expression inside another is looked at once, not twice at each level: 2^60 looks would never end.
func TestNestingIsCheap(t *testing.T) {
	const depth = 60
	b := setup(t)
	seed(t, b)
	nested := func(before, middle, after string) string {
		return strings.Repeat(before, depth) + middle + strings.Repeat(after, depth)
	}
	for name, sql := range map[string]string{
		"NULLIF":  nested("NULLIF(", "Shard", ", -1)"),
		"CASE":    nested("CASE ", "Shard", " WHEN -1 THEN -2 ELSE 1 END"),
		"BETWEEN": nested("(", "TRUE", " BETWEEN FALSE AND TRUE)"),
		"columns": nested("(", "(Shard = 1)", " BETWEEN FALSE AND TRUE)"),
		"ORs":     nested("(", "Shard = 1", " OR Shard = 2)"),
	} {
		got, err := query(t, b, "SELECT COUNT(DISTINCT "+sql+") FROM Results WHERE RunId = 'r' AND ("+sql+") IS NOT NULL", nil)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
