package spanner_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
)

// mutationCount commits and returns what the commit counted.
func mutationCount(t *testing.T, b *bundle, mutations ...*gcp.Mutation) int64 {
	t.Helper()
	resp, err := b.client.ReadWriteTransactionWithOptions(t.Context(), buffering(mutations...),
		gcp.TransactionOptions{CommitOptions: gcp.CommitOptions{ReturnCommitStats: true}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.CommitStats.GetMutationCount()
}

func TestMutationsAreCountedAsTheServiceDoes(t *testing.T) {
	b := setup(t, `CREATE TABLE T (K STRING(MAX), A INT64, B INT64, C INT64) PRIMARY KEY (K)`,
		`CREATE INDEX ByA ON T(A) STORING (B)`, `CREATE NULL_FILTERED INDEX ByC ON T(C)`)
	put := func(key string, columns []string, values ...any) *gcp.Mutation {
		return gcp.InsertOrUpdate("T", append([]string{"K"}, columns...), append([]any{key}, values...))
	}
	for _, step := range []struct {
		name      string
		mutations []*gcp.Mutation
		want      int64
	}{
		{"a new row: its cells, and an entry in one index", []*gcp.Mutation{put("k", []string{"A", "B"}, 1, 1)}, 3 + 1},
		{"a new row with an entry in both", []*gcp.Mutation{put("l", []string{"A", "C"}, 1, 1)}, 3 + 2},
		{"the same values again", []*gcp.Mutation{put("k", []string{"A", "B"}, 1, 1)}, 3},
		{"a stored column", []*gcp.Mutation{put("k", []string{"B"}, 2)}, 2 + 1},
		{"an entry that moves", []*gcp.Mutation{put("k", []string{"A"}, 2)}, 2 + 2},
		{"an entry that comes", []*gcp.Mutation{put("k", []string{"C"}, 5)}, 2 + 1},
		{"an entry that goes", []*gcp.Mutation{put("k", []string{"C"}, nil)}, 2 + 1},
		{"a deleted key that is not there", []*gcp.Mutation{gcp.Delete("T", gcp.Key{"nope"})}, 1},
		{"a deleted row", []*gcp.Mutation{gcp.Delete("T", gcp.Key{"k"})}, 1 + 1},
		{"a new row and its end in one commit", []*gcp.Mutation{put("m", []string{"A"}, 1), gcp.Delete("T", gcp.Key{"m"})}, 2 + 1 + 1 + 1},
		{"more rows", []*gcp.Mutation{put("n", nil), put("o", []string{"C"}, 1)}, 1 + 1 + 2 + 2},
		{"a deleted range: 1, and the entries of its rows", []*gcp.Mutation{gcp.Delete("T", gcp.AllKeys())}, 1 + 2 + 1 + 2},
	} {
		if got := mutationCount(t, b, step.mutations...); got != step.want {
			t.Errorf("%s counts %d, want %d", step.name, got, step.want)
		}
	}
}

// Exactly 80,000 pass, one more does not.
func TestMutationLimit(t *testing.T) {
	b := setup(t, counterTable)
	mutations := make([]*gcp.Mutation, 0, 40_001)
	for i := range 40_000 {
		mutations = append(mutations, setCounter(fmt.Sprint(i), 1))
	}
	if _, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce()); err != nil {
		t.Errorf("80,000 mutations: %v", err)
	}
	mutations = append(mutations, gcp.Delete("Counters", gcp.Key{"x"}))
	if _, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce()); gcp.ErrCode(err) != codes.InvalidArgument {
		t.Errorf("80,001 mutations: %v, want InvalidArgument", err)
	}
}

// A deletion of many rows with an index is over the limit, though it is one range.
func TestRangeDeletionCountsIndexEntries(t *testing.T) {
	b := setup(t, counterTable, `CREATE INDEX ByN ON Counters(N)`)
	for batch := range 4 {
		mutations := make([]*gcp.Mutation, 20_000)
		for i := range mutations {
			mutations[i] = setCounter(fmt.Sprint(batch, "-", i), 1)
		}
		if _, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Delete("Counters", gcp.AllKeys())}); gcp.ErrCode(err) != codes.InvalidArgument {
		t.Errorf("deletion of 80,000 rows with an index: %v, want InvalidArgument", err)
	}
}

// The longest cells come back as they were written, by a read and by a query, in a row of several of them.
func TestLongestCells(t *testing.T) {
	b := setup(t, `CREATE TABLE Big (Id INT64, Y BYTES(MAX), S STRING(MAX), N INT64, T STRING(MAX)) PRIMARY KEY (Id)`)
	blob := make([]byte, 10<<20)
	for i := range blob {
		blob[i] = byte(i * 7)
	}
	text := strings.Repeat("\U0001F600", 2_621_440) // 10 MiB
	odd := strings.Repeat("aé", 400_000)
	columns := []string{"Id", "Y", "S", "N", "T"}
	want := [][]any{{int64(0), blob, text, int64(5), odd}, {int64(1), []byte("b"), "s", int64(6), "t"}}
	for _, row := range want {
		if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Big", columns, row)}); err != nil {
			t.Fatal(err)
		}
	}
	for how, rows := range map[string]*gcp.RowIterator{
		"read":  b.client.Single().Read(t.Context(), "Big", gcp.AllKeys(), columns),
		"query": b.client.Single().Query(t.Context(), gcp.NewStatement("SELECT * FROM Big ORDER BY Id")),
	} {
		next := 0
		err := rows.Do(func(row *gcp.Row) error {
			var id, n int64
			var y []byte
			var s, o string
			if err := row.Columns(&id, &y, &s, &n, &o); err != nil {
				return err
			}
			if !reflect.DeepEqual([]any{id, y, s, n, o}, want[next]) { // a diff would be as long as the cells
				t.Errorf("%s: row %d came back changed", how, id)
			}
			next++
			return nil
		})
		if err != nil || next != len(want) {
			t.Errorf("%s: %d rows, %v", how, next, err)
		}
	}

	// One byte more is too long, as is a result that does not come in a stream.
	_, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Big", []string{"Id", "Y"}, []any{9, append(blob, 0)})})
	if gcp.ErrCode(err) != codes.FailedPrecondition {
		t.Errorf("10 MiB + 1: %v, want FailedPrecondition", err)
	}
	client, session := raw(t, b)
	_, err = client.Read(t.Context(), &spannerpb.ReadRequest{Session: session.GetName(), Table: "Big", Columns: columns, KeySet: &spannerpb.KeySet{All: true}})
	wantCode(t, "Read of more than 10 MiB", err, codes.FailedPrecondition)
}

// No message of a stream is much longer than 1 MiB, whatever the row.
func TestLongCellsComeInPieces(t *testing.T) {
	b := setup(t, `CREATE TABLE Big (Id INT64, S STRING(MAX)) PRIMARY KEY (Id)`)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{
		gcp.Insert("Big", []string{"Id", "S"}, []any{1, strings.Repeat("é", 2_000_000)}),
		gcp.Insert("Big", []string{"Id", "S"}, []any{2, "short"}),
	}); err != nil {
		t.Fatal(err)
	}
	client, session := raw(t, b)
	stream, err := client.StreamingRead(t.Context(), &spannerpb.ReadRequest{
		Session: session.GetName(), Table: "Big", Columns: []string{"Id", "S"}, KeySet: &spannerpb.KeySet{All: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	chunked := 0
	for {
		part, err := stream.Recv()
		if err != nil {
			break // the end
		}
		size := 0
		for _, value := range part.GetValues() {
			size += len(value.GetStringValue())
		}
		if size > 1<<20+100 {
			t.Errorf("a message of %d bytes", size)
		}
		if part.GetChunkedValue() {
			chunked++
			if len(part.GetResumeToken()) > 0 {
				t.Error("a token in the middle of a row")
			}
		}
	}
	if chunked != 3 {
		t.Errorf("%d values were continued, want 3", chunked)
	}
}

// Keys of 8 KiB pass, longer ones do not: those of an index as well.
func TestKeyLength(t *testing.T) {
	b := setup(t, counterTable, `CREATE TABLE Indexed (K STRING(MAX), V STRING(MAX)) PRIMARY KEY (K)`, `CREATE INDEX ByV ON Indexed(V)`)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter(strings.Repeat("k", 8192), 1)}); err != nil {
		t.Errorf("a key of 8,192 bytes: %v", err)
	}
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter(strings.Repeat("é", 4097), 1)}); gcp.ErrCode(err) != codes.InvalidArgument {
		t.Errorf("a key of 8,194 bytes: %v, want InvalidArgument", err)
	}
	put := func(key, value int) error {
		_, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Indexed", []string{"K", "V"}, []any{strings.Repeat("k", key), strings.Repeat("v", value)})})
		return err
	}
	if err := put(4000, 4192); err != nil {
		t.Errorf("a key of 8,192 bytes in an index: %v", err)
	}
	if err := put(4001, 4192); gcp.ErrCode(err) != codes.InvalidArgument {
		t.Errorf("a key of 8,193 bytes in an index: %v, want InvalidArgument", err)
	}
}

// Text that is no UTF-8 never arrives: the client refuses to send it. BYTES take anything.
func TestInvalidUTF8(t *testing.T) {
	b := setup(t, everythingTable)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Everything", []string{"Id", "S"}, []any{1, "a\xff"})}); err == nil {
		t.Error("invalid UTF-8 was written to a STRING")
	}
	if _, err := query(t, b, "SELECT @p", map[string]any{"p": "\xff"}); err == nil {
		t.Error("invalid UTF-8 came through as a parameter")
	}
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Everything", []string{"Id", "Y"}, []any{1, []byte("a\xff")})}); err != nil {
		t.Errorf("BYTES: %v", err)
	}
	if got, err := query(t, b, "SELECT SAFE_CAST(Y AS STRING) FROM Everything", nil); err != nil || got[0] != "<nil>" {
		t.Errorf("SAFE_CAST of BYTES that are no text = %v, %v, want NULL", got, err)
	}
}
