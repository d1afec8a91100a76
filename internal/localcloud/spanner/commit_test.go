package spanner_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
)

// everything has a column of each type.
const everythingTable = `CREATE TABLE Everything (
	Id INT64 NOT NULL, B BOOL, I INT64, F FLOAT64, S STRING(5), Big STRING(MAX), Y BYTES(4), T TIMESTAMP,
	C TIMESTAMP OPTIONS (allow_commit_timestamp = true),
) PRIMARY KEY (Id)`

func TestCommitRefusesWhatTheServiceRefuses(t *testing.T) {
	b := setup(t, everythingTable, counterTable)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("there", 1)}); err != nil {
		t.Fatal(err)
	}
	one := func(column string, value any) []*gcp.Mutation {
		return []*gcp.Mutation{gcp.InsertOrUpdate("Everything", []string{"Id", column}, []any{1, value})}
	}
	wide := make([]*gcp.Mutation, 20_001)
	for i := range wide {
		wide[i] = gcp.InsertOrUpdate("Everything", []string{"Id", "B", "I", "F"}, []any{i, true, i, 1.5})
	}
	heavy := make([]*gcp.Mutation, 41)
	for i := range heavy {
		heavy[i] = gcp.InsertOrUpdate("Everything", []string{"Id", "Big"}, []any{i, strings.Repeat("x", 2_600_000)})
	}
	tests := map[string]struct {
		mutations []*gcp.Mutation
		code      codes.Code
		text      string
	}{
		"unknown table":        {[]*gcp.Mutation{gcp.Insert("Nope", []string{"A"}, []any{1})}, codes.NotFound, "Nope"},
		"unknown column":       {one("Nope", 1), codes.NotFound, "Nope"},
		"wrong type":           {one("I", "seven"), codes.FailedPrecondition, "Expected INT64"},
		"number for a string":  {one("S", 1.5), codes.FailedPrecondition, "Expected STRING"},
		"long string":          {one("S", "sixsix"), codes.FailedPrecondition, "limit: 5"},
		"long bytes":           {one("Y", []byte("fivef")), codes.FailedPrecondition, "limit: 4"},
		"cell over the limit":  {one("Big", strings.Repeat("x", 2_621_441)), codes.FailedPrecondition, "limit: 2621440"},
		"NULL in NOT NULL":     {[]*gcp.Mutation{gcp.Insert("Counters", []string{"Name", "N"}, []any{"a", nil})}, codes.FailedPrecondition, "must not be NULL"},
		"NOT NULL left out":    {[]*gcp.Mutation{gcp.Insert("Counters", []string{"Name"}, []any{"a"})}, codes.FailedPrecondition, "NOT NULL column: N"},
		"upsert leaves it out": {[]*gcp.Mutation{gcp.InsertOrUpdate("Counters", []string{"Name"}, []any{"there"})}, codes.FailedPrecondition, "NOT NULL column: N"},
		"no key":               {[]*gcp.Mutation{gcp.Update("Counters", []string{"N"}, []any{1})}, codes.FailedPrecondition, "primary key"},
		"column twice":         {[]*gcp.Mutation{gcp.Insert("Counters", []string{"Name", "N", "n"}, []any{"a", 1, 2})}, codes.InvalidArgument, "Multiple values"},
		"insert over a row":    {[]*gcp.Mutation{gcp.Insert("Counters", []string{"Name", "N"}, []any{"there", 2})}, codes.AlreadyExists, "[there]"},
		"insert twice":         {[]*gcp.Mutation{gcp.Insert("Counters", []string{"Name", "N"}, []any{"new", 1}), gcp.Insert("Counters", []string{"Name", "N"}, []any{"new", 2})}, codes.AlreadyExists, "[new]"},
		"update of no row":     {[]*gcp.Mutation{gcp.Update("Counters", []string{"Name", "N"}, []any{"gone", 2})}, codes.NotFound, "[gone]"},
		"timestamp to come":    {one("C", time.Now().Add(time.Hour)), codes.FailedPrecondition, "in the future"},
		"commit timestamp where it is not allowed": {one("T", gcp.CommitTimestamp), codes.FailedPrecondition, "allow_commit_timestamp"},
		"key of wrong length":                      {[]*gcp.Mutation{gcp.Delete("Counters", gcp.Key{"a", "b"})}, codes.FailedPrecondition, "key parts"},
		"key over 8 KiB":                           {[]*gcp.Mutation{setCounter(strings.Repeat("k", 8193), 1)}, codes.InvalidArgument, "maximum of 8192"},
		"year 0":                                   {one("T", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), codes.InvalidArgument, "out of range"},
		"range over two key parts":                 {[]*gcp.Mutation{gcp.Delete("Results", gcp.KeyRange{Start: gcp.Key{"a", 1}, End: gcp.Key{"b", 2}})}, codes.Unimplemented, "final key part"},
		"range of unlike ends":                     {[]*gcp.Mutation{gcp.Delete("Results", gcp.KeyRange{Start: gcp.Key{"a"}, End: gcp.Key{"b", 2}})}, codes.Unimplemented, "final key part"},
		"80,004 mutations":                         {wide, codes.InvalidArgument, "too many mutations"},
		"over 100 MB":                              {heavy, codes.InvalidArgument, "bytes a commit"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.client.Apply(t.Context(), test.mutations, gcp.ApplyAtLeastOnce())
			if gcp.ErrCode(err) != test.code || !strings.Contains(gcp.ErrDesc(err), test.text) {
				t.Errorf("commit = %v, want %v with %q", err, test.code, test.text)
			}
		})
	}
	if n, err := counter(t.Context(), b.client.Single(), "new"); gcp.ErrCode(err) != codes.NotFound {
		t.Errorf("a refused commit left a row: %d, %v", n, err)
	}
}

// A commit of exactly the limit passes, and an index entry counts.
func TestMutationLimitCountsIndexEntries(t *testing.T) {
	b := setup(t, counterTable, `CREATE INDEX CountersByN ON Counters(N)`)
	mutations := make([]*gcp.Mutation, 26_667) // x (2 columns + 1 entry) = 80,001
	for i := range mutations {
		mutations[i] = setCounter(fmt.Sprint(i), 1)
	}
	if _, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce()); gcp.ErrCode(err) != codes.InvalidArgument {
		t.Errorf("commit of 80,001 mutations = %v, want InvalidArgument", err)
	}
	if _, err := b.client.Apply(t.Context(), mutations[1:], gcp.ApplyAtLeastOnce()); err != nil {
		t.Errorf("commit of 79,998 mutations = %v", err)
	}
}

func TestValuesOfEachTypeComeBack(t *testing.T) {
	b := setup(t, everythingTable)
	type everything struct {
		Id int64 //nolint:revive // the column's name
		B  gcp.NullBool
		I  gcp.NullInt64
		F  gcp.NullFloat64
		S  gcp.NullString
		Y  []byte
		T  gcp.NullTime
	}
	moment := time.Date(2026, 2, 3, 4, 5, 6, 789_000_001, time.UTC)
	want := []everything{
		{Id: 1},
		{
			Id: 2, B: gcp.NullBool{Bool: true, Valid: true}, I: gcp.NullInt64{Int64: math.MinInt64, Valid: true}, F: gcp.NullFloat64{Float64: math.Inf(-1), Valid: true},
			S: gcp.NullString{StringVal: "äöüß€", Valid: true}, Y: []byte{0, 255, 1}, T: gcp.NullTime{Time: moment, Valid: true},
		},
		{Id: 3, I: gcp.NullInt64{Int64: math.MaxInt64, Valid: true}, F: gcp.NullFloat64{Float64: 0.1, Valid: true}, S: gcp.NullString{Valid: true}, Y: []byte{}},
	}
	for _, row := range want {
		m, err := gcp.InsertStruct("Everything", row)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{m}, gcp.ApplyAtLeastOnce()); err != nil {
			t.Fatal(err)
		}
	}
	columns := []string{"Id", "B", "I", "F", "S", "Y", "T"}
	read := func(iter *gcp.RowIterator) (got []everything) {
		if err := iter.Do(func(row *gcp.Row) error {
			var e everything
			got = append(got, everything{})
			err := row.ToStruct(&e)
			got[len(got)-1] = e
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for how, got := range map[string][]everything{
		"read":  read(b.client.Single().Read(t.Context(), "Everything", gcp.AllKeys(), columns)),
		"query": read(b.client.Single().Query(t.Context(), gcp.NewStatement("SELECT "+strings.Join(columns, ", ")+" FROM Everything ORDER BY Id"))),
	} {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got\n%v, want\n%v", how, got, want)
		}
	}
}

func TestMutationKinds(t *testing.T) {
	b := setup(t, everythingTable)
	put := func(m ...*gcp.Mutation) {
		t.Helper()
		if _, err := b.client.Apply(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	read := func(id int64) (i, s string) {
		t.Helper()
		row, err := b.client.Single().ReadRow(t.Context(), "Everything", gcp.Key{id}, []string{"I", "S"})
		if err != nil {
			return gcp.ErrCode(err).String(), ""
		}
		var number gcp.NullInt64
		var text gcp.NullString
		if err := row.Columns(&number, &text); err != nil {
			t.Fatal(err)
		}
		return number.String(), text.String()
	}
	expect := func(id int64, wantI, wantS string) {
		t.Helper()
		if i, s := read(id); i != wantI || s != wantS {
			t.Errorf("row %d = %s, %s, want %s, %s", id, i, s, wantI, wantS)
		}
	}
	put(gcp.Insert("Everything", []string{"Id", "I", "S"}, []any{1, 10, "a"}))
	put(gcp.Update("Everything", []string{"Id", "I"}, []any{1, 11}))
	expect(1, "11", "a")
	put(gcp.InsertOrUpdate("Everything", []string{"Id", "S"}, []any{1, "b"}))
	expect(1, "11", "b")
	put(gcp.Replace("Everything", []string{"Id", "S"}, []any{1, "c"}))
	expect(1, "<null>", "c")
	// In one commit each mutation sees what the ones before it did.
	put(gcp.Delete("Everything", gcp.Key{1}),
		gcp.Insert("Everything", []string{"Id", "I"}, []any{1, 1}),
		gcp.Insert("Everything", []string{"Id", "I"}, []any{2, 2}),
		gcp.Insert("Everything", []string{"Id", "I"}, []any{3, 3}),
		gcp.Delete("Everything", gcp.KeyRange{Start: gcp.Key{2}, End: gcp.Key{3}, Kind: gcp.ClosedClosed}),
		gcp.Insert("Everything", []string{"Id", "I"}, []any{3, 33}))
	expect(1, "1", "<null>")
	expect(2, codes.NotFound.String(), "")
	expect(3, "33", "<null>")
	put(gcp.Delete("Everything", gcp.AllKeys()))
	expect(3, codes.NotFound.String(), "")
}

func TestCommitStats(t *testing.T) {
	b := setup(t, counterTable)
	resp, err := b.client.ReadWriteTransactionWithOptions(t.Context(), buffering(setCounter("a", 1), gcp.Delete("Counters", gcp.Key{"b"})),
		gcp.TransactionOptions{CommitOptions: gcp.CommitOptions{ReturnCommitStats: true}})
	if err != nil || resp.CommitStats.GetMutationCount() != 3 {
		t.Errorf("commit stats = %v, %v, want 3 mutations", resp.CommitStats, err)
	}
}

// One bad group of a BatchWrite costs only itself.
func TestBatchWrite(t *testing.T) {
	b := setup(t, counterTable)
	groups := []*gcp.MutationGroup{
		{Mutations: []*gcp.Mutation{setCounter("a", 1)}},
		{Mutations: []*gcp.Mutation{setCounter("b", 1), gcp.Insert("Nope", []string{"A"}, []any{1})}},
		{Mutations: []*gcp.Mutation{setCounter("c", 1)}},
	}
	got := map[int32]codes.Code{}
	if err := b.client.BatchWrite(t.Context(), groups).Do(func(r *spannerpb.BatchWriteResponse) error {
		for _, i := range r.GetIndexes() {
			got[i] = codes.Code(r.GetStatus().GetCode()) // a code
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got[0] != codes.OK || got[1] != codes.NotFound || got[2] != codes.OK {
		t.Errorf("groups = %v, want OK, NotFound, OK", got)
	}
	if names := items(t, b.client.Single().Read(t.Context(), "Counters", gcp.AllKeys(), []string{"Name"})); strings.Join(names, "") != "ac" {
		t.Errorf("rows = %v, want a and c", names)
	}
}

func buffering(mutations ...*gcp.Mutation) func(context.Context, *gcp.ReadWriteTransaction) error {
	return func(_ context.Context, tx *gcp.ReadWriteTransaction) error { return tx.BufferWrite(mutations) }
}
