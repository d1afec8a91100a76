package publish

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

func TestExportAsParquet(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r"}
	var results memoryResults
	const n = groupRows + 10 // more than one row group
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	for i := range n {
		row := Row{ItemID: fmt.Sprint(i), Status: "OK", Output: `{"n":9007199254740993}`, ModelVersion: "m", Worker: "w", CommittedAt: at}
		if i%1000 == 1 {
			row.Status, row.Output, row.ErrorClass, row.ErrorMessage = "FAILED", "", "item_error", "bad"
		}
		results.rows = append(results.rows, row)
	}
	var out bytes.Buffer
	count, err := Export(t.Context(), runs, results, "r", Selection{}, FormatParquet, &out)
	if err != nil || count != n {
		t.Fatalf("%d rows, error %v", count, err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if groups := len(file.RowGroups()); groups != 2 {
		t.Errorf("%d row groups, want 2: the file is kept in memory", groups)
	}
	got, err := parquet.Read[parquetRow](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(got) != n {
		t.Fatalf("%d rows read, error %v", len(got), err)
	}
	output, class, message := `{"n":9007199254740993}`, "item_error", "bad"
	want := []parquetRow{
		{ItemID: "0", Status: "OK", Output: &output, ModelVersion: "m", Worker: "w", CommittedAt: at},
		{ItemID: "1", Status: "FAILED", ErrorClass: &class, ErrorMessage: &message, ModelVersion: "m", Worker: "w", CommittedAt: at},
	}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if last := got[n-1].ItemID; last != fmt.Sprint(n-1) {
		t.Errorf("the last row is %s", last)
	}
}

func TestExportInTheOrderOfTheDataset(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r"}
	data := numbered(3*lookupRows + 5)
	var results memoryResults
	for i, id := range slices.Backward(data.ids) {
		if i%7 == 3 {
			continue // no result yet
		}
		results.rows = append(results.rows, Row{ItemID: id, Status: "OK", Output: "1"})
	}
	results.rows = append(results.rows, Row{ItemID: "of no item", Status: "OK", Output: "1"})
	var out strings.Builder
	if _, err := Export(t.Context(), runs, results, "r", Selection{Order: data}, FormatCSV, &out); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString(strings.Join(exportColumns, ",") + "\n")
	for i, id := range data.ids {
		if i%7 != 3 {
			want.WriteString(id + ",OK,1,,,,,0001-01-01T00:00:00Z\n")
		}
	}
	if diff := cmp.Diff(want.String(), out.String()); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
}

func TestDryRunSendsNothing(t *testing.T) {
	data := numbered(10)
	data.ids[1] = "!bad"
	var shown []string
	report, err := DryRun(t.Context(), "r", data, &noProgress{t: t}, 3, func(it item.Item) {
		shown = append(shown, it.RunID+" "+it.ItemID)
	})
	if err != nil || report.Read != 10 || report.Items != 9 || report.Rejected != 1 {
		t.Errorf("report %+v, error %v", report, err)
	}
	if diff := cmp.Diff([]string{"r 0", "r 2", "r 3"}, shown); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

// BenchmarkRun publishes to a topic that takes everything at once: what is
// left is what the publisher itself costs.
func BenchmarkRun(b *testing.B) {
	data := numbered(b.N)
	p, err := New(b.Context(), Config{Window: 10_000}, devNull{}, newRuns(), silent{}, noop.NewMeterProvider(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := p.Run(b.Context(), "r", data, "", NoCheckpoint{}); err != nil {
		b.Fatal(err)
	}
}

type devNull struct{}

func (devNull) Publish(context.Context, item.Item) Confirmation { return confirmed{} }

type confirmed struct{}

func (confirmed) Wait(context.Context) error { return nil }

type silent struct{}

func (silent) Begin(string, int64, dataset.Counts) {}
func (silent) Show(dataset.Counts)                 {}
func (silent) End()                                {}
