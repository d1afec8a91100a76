package spanner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

// execute runs statements in one read-write transaction and returns the rows that each has changed.
func execute(t *testing.T, b *bundle, statements ...gcp.Statement) ([]int64, error) {
	t.Helper()
	var counts []int64
	_, err := b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		counts = nil
		for _, statement := range statements {
			n, err := tx.Update(ctx, statement)
			if err != nil {
				return err
			}
			counts = append(counts, n)
		}
		return nil
	})
	return counts, err
}

func statement(sql string) gcp.Statement { return gcp.NewStatement(sql) }

func TestDML(t *testing.T) {
	b := setup(t, everythingTable)
	for _, step := range []struct {
		name       string
		statements []gcp.Statement
		counts     []int64
		rows       []string
	}{
		{
			"insert",
			[]gcp.Statement{
				{SQL: `INSERT INTO Everything (Id, S, F) VALUES (1, 'a', 1), (2, @s, 1 + 0.5)`, Params: map[string]any{"s": "b"}},
				statement(`INSERT Everything (Id) VALUES (3)`),
			},
			[]int64{2, 1},
			[]string{"1 a 1", "2 b 1.5", "3 <nil> <nil>"},
		},
		{"update", []gcp.Statement{statement(`UPDATE Everything e SET e.F = F * 2, S = CONCAT(S, '!') WHERE e.F > 1`)}, []int64{1}, []string{"1 a 1", "2 b! 3", "3 <nil> <nil>"}},
		{"upsert", []gcp.Statement{statement(`INSERT OR UPDATE INTO Everything (Id, F) VALUES (1, 7), (4, 8)`)}, []int64{2}, []string{"1 a 7", "2 b! 3", "3 <nil> <nil>", "4 <nil> 8"}},
		{"delete what an index would not find", []gcp.Statement{statement(`DELETE Everything WHERE S IS NULL`)}, []int64{2}, []string{"1 a 7", "2 b! 3"}},
		{"nothing to do", []gcp.Statement{statement(`DELETE FROM Everything WHERE FALSE`), statement(`UPDATE Everything SET F = 0 WHERE Id = 99`)}, []int64{0, 0}, []string{"1 a 7", "2 b! 3"}},
		{
			"replace a row",
			[]gcp.Statement{statement(`DELETE FROM Everything WHERE Id = 1`), statement(`INSERT INTO Everything (Id, S) VALUES (1, 'new')`)},
			[]int64{1, 1},
			[]string{"1 new <nil>", "2 b! 3"},
		},
	} {
		counts, err := execute(t, b, step.statements...)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.counts, counts); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", step.name, diff)
		}
		got, err := query(t, b, "SELECT Id, S, F FROM Everything ORDER BY Id", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.rows, got); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestDMLWritesTheCommitTimestamp(t *testing.T) {
	b := setup(t, everythingTable)
	at, err := b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		_, err := tx.Update(ctx, statement(`INSERT INTO Everything (Id, C) VALUES (1, PENDING_COMMIT_TIMESTAMP())`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row, err := b.client.Single().ReadRow(t.Context(), "Everything", gcp.Key{1}, []string{"C"})
	var written time.Time
	if err != nil || row.Column(0, &written) != nil || !written.Equal(at) {
		t.Errorf("C = %v, %v, want %v", written, err, at)
	}
}

func TestDMLThatIsRefused(t *testing.T) {
	b := setup(t, everythingTable)
	if _, err := execute(t, b, statement(`INSERT INTO Everything (Id) VALUES (1)`)); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]codes.Code{
		`INSERT INTO Everything (Id) VALUES (1)`:                          codes.AlreadyExists,
		`INSERT INTO Everything (Id) VALUES (2), (2)`:                     codes.AlreadyExists,
		`INSERT INTO Everything (Id) VALUES (NULL)`:                       codes.FailedPrecondition,
		`INSERT INTO Everything (S) VALUES ('a')`:                         codes.FailedPrecondition,
		`INSERT INTO Everything (Id, S) VALUES (2, 'sixsix')`:             codes.FailedPrecondition,
		`INSERT INTO Everything (Id, S) VALUES (2)`:                       codes.InvalidArgument,
		`INSERT INTO Everything (Id, I) VALUES (2, 'x')`:                  codes.InvalidArgument,
		`INSERT INTO Everything (Id, Id) VALUES (2, 2)`:                   codes.InvalidArgument,
		`INSERT INTO Everything (Id, I) VALUES (2, I)`:                    codes.InvalidArgument,
		`INSERT INTO Everything (Nope) VALUES (2)`:                        codes.InvalidArgument,
		`INSERT INTO Nope (Id) VALUES (2)`:                                codes.InvalidArgument,
		`UPDATE Everything SET I = 1`:                                     codes.InvalidArgument,
		`UPDATE Everything SET Id = 1 WHERE TRUE`:                         codes.InvalidArgument,
		`UPDATE Everything SET I = 1 / 0 WHERE TRUE`:                      codes.InvalidArgument,
		`UPDATE Everything SET F = 1 / 0 WHERE TRUE`:                      codes.OutOfRange,
		`UPDATE Everything SET T = PENDING_COMMIT_TIMESTAMP() WHERE TRUE`: codes.FailedPrecondition,
		`UPDATE Everything SET I = PENDING_COMMIT_TIMESTAMP() WHERE TRUE`: codes.InvalidArgument,
		`DELETE FROM Everything`:                                          codes.InvalidArgument,
		`INSERT OR IGNORE INTO Everything (Id) VALUES (1)`:                codes.Unimplemented,
		`INSERT INTO Everything (Id) SELECT 2`:                            codes.Unimplemented,
		`INSERT INTO Everything (Id, S) VALUES (2, DEFAULT)`:              codes.Unimplemented,
		`DELETE FROM Everything WHERE Id = 1 THEN RETURN Id`:              codes.Unimplemented,
		`DELETE FROM Everything WHERE Id IN (SELECT Id FROM Everything)`:  codes.Unimplemented,
	} {
		_, err := execute(t, b, statement(sql))
		wantCode(t, sql, err, want)
	}
	if got, err := query(t, b, "SELECT Id, I FROM Everything", nil); err != nil || strings.Join(got, "|") != "1 <nil>" {
		t.Errorf("rows after refused statements = %v, %v", got, err)
	}

	// What a transaction has changed cannot be read in it: refused, not answered wrongly.
	_, err := execute(t, b, statement(`UPDATE Everything SET I = 1 WHERE Id = 1`), statement(`UPDATE Everything SET I = I + 1 WHERE Id = 1`))
	wantCode(t, "two statements that read one table", err, codes.Unimplemented)
	// Outside of a read-write transaction there is no DML.
	_, err = query(t, b, `DELETE FROM Everything WHERE TRUE`, nil)
	wantCode(t, "DML in a single-use transaction", err, codes.InvalidArgument)
	tx := b.client.ReadOnlyTransaction()
	defer tx.Close()
	wantCode(t, "DML in a read-only transaction", tx.Query(t.Context(), statement(`DELETE FROM Everything WHERE TRUE`)).Do(func(*gcp.Row) error { return nil }), codes.FailedPrecondition)
}

// A statement rests on what it read: if another commit changes that, all runs again.
func TestDMLLosesNoUpdate(t *testing.T) {
	b := setup(t, counterTable)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("a", 0)}); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	_, err := b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		if _, err := tx.Update(ctx, statement(`UPDATE Counters SET N = N + 1 WHERE Name = 'a'`)); err != nil {
			return err
		}
		if attempts++; attempts > 1 {
			return nil
		}
		//nolint:contextcheck // another client's commit: the library refuses one inside the transaction's context
		_, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("a", 10)})
		return err
	})
	if n, readErr := counter(t.Context(), b.client.Single(), "a"); err != nil || readErr != nil || n != 11 || attempts != 2 {
		t.Errorf("counter = %d after %d attempts, %v, %v, want 11 after 2", n, attempts, err, readErr)
	}
}

// A statement whose answer was lost is asked for again with its number, and not done again.
func TestDMLReplay(t *testing.T) {
	b := setup(t, counterTable)
	client, session := raw(t, b)
	tx, err := client.BeginTransaction(t.Context(), &spannerpb.BeginTransactionRequest{Session: session.GetName(), Options: readWrite})
	if err != nil {
		t.Fatal(err)
	}
	run := func(seqno int64) error {
		set, err := client.ExecuteSql(t.Context(), &spannerpb.ExecuteSqlRequest{
			Session: session.GetName(), Sql: `INSERT INTO Counters (Name, N) VALUES ('a', 1)`, Seqno: seqno,
			Transaction: &spannerpb.TransactionSelector{Selector: &spannerpb.TransactionSelector_Id{Id: tx.GetId()}},
		})
		if err == nil && set.GetStats().GetRowCountExact() != 1 {
			err = fmt.Errorf("answer %v", set)
		}
		return err
	}
	wantCode(t, "the statement", run(5), codes.OK)
	wantCode(t, "the same again", run(5), codes.OK)
	wantCode(t, "a number from before", run(4), codes.InvalidArgument)
	wantCode(t, "a new one", run(6), codes.AlreadyExists)
	_, err = client.Commit(t.Context(), &spannerpb.CommitRequest{Session: session.GetName(), Transaction: &spannerpb.CommitRequest_TransactionId{TransactionId: tx.GetId()}})
	wantCode(t, "commit", err, codes.OK)
}

// Partitioned DML goes beyond the limits of one commit.
func TestPartitionedDML(t *testing.T) {
	b := setup(t, counterTable, `CREATE INDEX ByN ON Counters(N)`)
	const n, half = 44_000, 22_000 // half of them make 88,000 mutations: their cells and the entries that move
	for start := 0; start < n; start += half {
		mutations := make([]*gcp.Mutation, half)
		for i := range mutations {
			mutations[i] = setCounter(fmt.Sprint(start+i), int64(i%2))
		}
		if _, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		sql  string
		want int64
		left string
	}{
		{`UPDATE Counters SET N = 7 WHERE N = 1`, half, "44000 22000"},
		{`DELETE FROM Counters WHERE N = 7`, half, "22000 0"},
		{`DELETE FROM Counters WHERE TRUE`, half, "0 0"},
	} {
		got, err := b.client.PartitionedUpdate(t.Context(), statement(test.sql))
		if err != nil || got != test.want {
			t.Errorf("%s = %d, %v, want %d", test.sql, got, err, test.want)
		}
		if left, err := query(t, b, "SELECT COUNT(*), COUNTIF(N = 7) FROM Counters", nil); err != nil || left[0] != test.left {
			t.Errorf("after %s: %v, %v, want %s", test.sql, left, err, test.left)
		}
	}
	_, err := b.client.PartitionedUpdate(t.Context(), statement(`INSERT INTO Counters (Name, N) VALUES ('a', 1)`))
	wantCode(t, "partitioned INSERT", err, codes.InvalidArgument)
	_, err = b.client.PartitionedUpdate(t.Context(), statement(`UPDATE Counters SET Nope = 1 WHERE TRUE`))
	wantCode(t, "partitioned UPDATE of no column", err, codes.InvalidArgument)
}

// A batch stops at the first statement that fails, and says how far it came.
func TestBatchDML(t *testing.T) {
	b := setup(t, counterTable)
	insert := func(name string) gcp.Statement {
		return gcp.Statement{SQL: `INSERT INTO Counters (Name, N) VALUES (@name, 1)`, Params: map[string]any{"name": name}}
	}
	batch := func(statements ...gcp.Statement) (counts []int64, err error) {
		_, err = b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
			counts, err = tx.BatchUpdate(ctx, statements)
			return err
		})
		return counts, err
	}
	if counts, err := batch(insert("a"), insert("b")); err != nil || fmt.Sprint(counts) != "[1 1]" {
		t.Errorf("batch = %v, %v, want [1 1]", counts, err)
	}
	counts, err := batch(insert("c"), insert("a"), insert("d"))
	if gcp.ErrCode(err) != codes.AlreadyExists || fmt.Sprint(counts) != "[1]" {
		t.Errorf("batch with a bad statement = %v, %v, want [1] and AlreadyExists", counts, err)
	}
	if names := items(t, b.client.Single().Read(t.Context(), "Counters", gcp.AllKeys(), []string{"Name"})); strings.Join(names, "") != "ab" {
		t.Errorf("rows = %v, want a and b", names)
	}
}
