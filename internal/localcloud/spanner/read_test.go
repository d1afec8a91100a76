package spanner_test

import (
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
)

// What the service refuses of reads.
func TestReadsThatAreRefused(t *testing.T) {
	b := setup(t, `CREATE INDEX ByStatus ON Results(Status)`)
	ctx := t.Context()
	client, session := raw(t, b)
	read := func(change func(*spannerpb.ReadRequest)) error {
		req := &spannerpb.ReadRequest{Session: session.GetName(), Table: "Results", Columns: []string{"ItemId"}, KeySet: &spannerpb.KeySet{All: true}}
		change(req)
		_, err := client.Read(ctx, req)
		return err
	}
	for name, test := range map[string]struct {
		change func(*spannerpb.ReadRequest)
		want   codes.Code
	}{
		"no table":          {func(r *spannerpb.ReadRequest) { r.Table = "Nope" }, codes.NotFound},
		"no column":         {func(r *spannerpb.ReadRequest) { r.Columns = []string{"Nope"} }, codes.NotFound},
		"no columns":        {func(r *spannerpb.ReadRequest) { r.Columns = nil }, codes.InvalidArgument},
		"negative limit":    {func(r *spannerpb.ReadRequest) { r.Limit = -1 }, codes.InvalidArgument},
		"through an index":  {func(r *spannerpb.ReadRequest) { r.Index = "ByStatus" }, codes.Unimplemented},
		"of a partition":    {func(r *spannerpb.ReadRequest) { r.PartitionToken = []byte("p") }, codes.Unimplemented},
		"with a bad token":  {func(r *spannerpb.ReadRequest) { r.Session += "x" }, codes.NotFound},
		"range without end": {func(r *spannerpb.ReadRequest) { r.KeySet = &spannerpb.KeySet{Ranges: []*spannerpb.KeyRange{{}}} }, codes.InvalidArgument},
	} {
		wantCode(t, name, read(test.change), test.want)
	}

	stale := func(bound gcp.TimestampBound) error {
		_, err := b.client.Single().WithTimestampBound(bound).ReadRow(ctx, "Results", gcp.Key{"r", 0, "a"}, []string{"ItemId"})
		return err
	}
	wantCode(t, "read of a row that is not there", stale(gcp.StrongRead()), codes.NotFound)
	wantCode(t, "read of two hours ago", stale(gcp.ExactStaleness(2*time.Hour)), codes.FailedPrecondition)
	wantCode(t, "read of tomorrow", stale(gcp.ReadTimestamp(time.Now().Add(24*time.Hour))), codes.DeadlineExceeded)
	for name, bound := range map[string]gcp.TimestampBound{"max staleness": gcp.MaxStaleness(time.Second), "min timestamp": gcp.MinReadTimestamp(time.Now())} {
		tx := b.client.ReadOnlyTransaction().WithTimestampBound(bound)
		_, err := tx.ReadRow(ctx, "Results", gcp.Key{"r", 0, "a"}, []string{"ItemId"})
		wantCode(t, name+" in a transaction of several reads", err, codes.InvalidArgument)
		tx.Close()
	}

	if _, err := b.client.Single().AnalyzeQuery(ctx, gcp.NewStatement("SELECT 1")); gcp.ErrCode(err) != codes.Unimplemented || !strings.Contains(err.Error(), "PLAN") {
		t.Errorf("AnalyzeQuery = %v, want Unimplemented with PLAN", err)
	}
}

// A stale read goes by the time that the client gives.
func TestExactStaleness(t *testing.T) {
	b := setup(t)
	first := b.write(t, result{RunId: "r", ItemId: "a", Status: "FAILED"})
	b.write(t, result{RunId: "r", ItemId: "a", Status: "OK"})
	tx := b.client.ReadOnlyTransaction().WithTimestampBound(gcp.ReadTimestamp(first))
	defer tx.Close()
	for range 2 {
		row, err := tx.ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "a"}, []string{"Status"})
		var status string
		if err != nil || row.Column(0, &status) != nil || status != "FAILED" {
			t.Errorf("Status = %q, %v, want FAILED", status, err)
		}
	}
	_, err := b.client.Single().WithTimestampBound(gcp.ExactStaleness(time.Minute)).ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "a"}, []string{"Status"})
	wantCode(t, "read of a minute ago", err, codes.NotFound)
}

// A read takes no more rows than the client asks for.
func TestReadLimit(t *testing.T) {
	b := setup(t)
	for _, item := range []string{"a", "b", "c"} {
		b.write(t, result{RunId: "r", ItemId: item, Status: "OK"})
	}
	got := items(t, b.client.Single().ReadWithOptions(t.Context(), "Results", gcp.AllKeys(), []string{"ItemId"}, &gcp.ReadOptions{Limit: 2}))
	if strings.Join(got, "") != "ab" {
		t.Errorf("items = %v, want a and b", got)
	}
}
