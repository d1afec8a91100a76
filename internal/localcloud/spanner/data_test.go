package spanner_test

import (
	"fmt"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	"github.com/google/go-cmp/cmp"
)

// result is a row of Results as the tests write and read it.
type result struct {
	RunId, ItemId, Status string //nolint:revive // the column names
	Shard                 int64
}

var resultColumns = []string{"RunId", "Shard", "ItemId", "Status", "Output", "ModelVersion", "Worker", "InferMillis", "CommittedAt"}

func (r result) mutation() *gcp.Mutation {
	return gcp.InsertOrUpdate("Results", resultColumns,
		[]any{r.RunId, r.Shard, r.ItemId, r.Status, `{"label":7}`, "m1", "w1", 1.5, gcp.CommitTimestamp})
}

// write commits rows as the sink does: at least once, in a single-use transaction.
func (b *bundle) write(t testing.TB, results ...result) time.Time {
	t.Helper()
	mutations := make([]*gcp.Mutation, len(results))
	for i, r := range results {
		mutations[i] = r.mutation()
	}
	at, err := b.client.Apply(t.Context(), mutations, gcp.ApplyAtLeastOnce())
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return at
}

// items returns the first column of the rows, as text.
func items(t testing.TB, iter *gcp.RowIterator) []string {
	t.Helper()
	got := []string{}
	err := iter.Do(func(row *gcp.Row) error {
		var value gcp.GenericColumnValue
		if err := row.Column(0, &value); err != nil {
			return err
		}
		got = append(got, value.Value.GetStringValue())
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return got
}

func TestReadKinds(t *testing.T) {
	b := setup(t)
	for shard := range int64(3) {
		for i := range 3 {
			b.write(t, result{RunId: "r", Shard: shard, ItemId: fmt.Sprintf("%d-%d", shard, i), Status: "OK"})
		}
	}
	b.write(t, result{RunId: "other", ItemId: "x", Status: "OK"})

	tests := map[string]struct {
		keys gcp.KeySet
		want []string
	}{
		"one key":     {gcp.Key{"r", 1, "1-1"}, []string{"1-1"}},
		"missing key": {gcp.Key{"r", 1, "nope"}, []string{}},
		"keys, twice and in no order": {
			gcp.KeySets(gcp.Key{"r", 2, "2-0"}, gcp.Key{"r", 0, "0-0"}, gcp.Key{"r", 2, "2-0"}), []string{"0-0", "2-0"},
		},
		"prefix":              {gcp.Key{"r", 1}.AsPrefix(), []string{"1-0", "1-1", "1-2"}},
		"half-open range":     {gcp.KeyRange{Start: gcp.Key{"r", 0, "0-1"}, End: gcp.Key{"r", 1, "1-1"}}, []string{"0-1", "0-2", "1-0"}},
		"open-closed range":   {gcp.KeyRange{Start: gcp.Key{"r", 0, "0-1"}, End: gcp.Key{"r", 1, "1-1"}, Kind: gcp.OpenClosed}, []string{"0-2", "1-0", "1-1"}},
		"range and key in it": {gcp.KeySets(gcp.Key{"r", 0}.AsPrefix(), gcp.Key{"r", 0, "0-1"}), []string{"0-0", "0-1", "0-2"}},
		"all":                 {gcp.AllKeys(), []string{"x", "0-0", "0-1", "0-2", "1-0", "1-1", "1-2", "2-0", "2-1", "2-2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := items(t, b.client.Single().Read(t.Context(), "Results", test.keys, []string{"ItemId"}))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommitTimestampIsStored(t *testing.T) {
	b := setup(t)
	at := b.write(t, result{RunId: "r", ItemId: "a", Status: "OK"})
	row, err := b.client.Single().ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "a"}, []string{"CommittedAt", "InferMillis", "ErrorClass"})
	if err != nil {
		t.Fatal(err)
	}
	var committed time.Time
	var millis gcp.NullFloat64
	var class gcp.NullString
	if err := row.Columns(&committed, &millis, &class); err != nil {
		t.Fatal(err)
	}
	if !committed.Equal(at) {
		t.Errorf("CommittedAt = %v, the commit said %v", committed, at)
	}
	if millis.Float64 != 1.5 || class.Valid {
		t.Errorf("InferMillis = %v, ErrorClass = %v, want 1.5 and NULL", millis, class)
	}
}

func TestStaleReadSeesThePast(t *testing.T) {
	b := setup(t)
	first := b.write(t, result{RunId: "r", ItemId: "a", Status: "FAILED"})
	b.write(t, result{RunId: "r", ItemId: "a", Status: "OK"})
	for bound, want := range map[*gcp.TimestampBound]string{
		new(gcp.ReadTimestamp(first)):           "FAILED",
		new(gcp.MinReadTimestamp(first)):        "OK",
		new(gcp.MaxStaleness(10 * time.Second)): "OK",
		new(gcp.StrongRead()):                   "OK",
	} {
		row, err := b.client.Single().WithTimestampBound(*bound).ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "a"}, []string{"Status"})
		if err != nil {
			t.Fatalf("%v: %v", bound, err)
		}
		var got string
		if err := row.Column(0, &got); err != nil || got != want {
			t.Errorf("%v: Status = %q, %v, want %q", bound, got, err, want)
		}
	}
}
