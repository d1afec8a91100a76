package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/item"
)

// memoryResults is the results of one run.
type memoryResults struct {
	rows   []Row
	counts Counts
}

func (r memoryResults) Count(context.Context, string) (Counts, error) { return r.counts, nil }

func (r memoryResults) Each(_ context.Context, _, status string, visit func(Row) error) error {
	for _, row := range r.rows {
		if status == "" || row.Status == status {
			if err := visit(row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r memoryResults) Statuses(_ context.Context, keys []item.Key) (map[item.Key]string, error) {
	found := map[item.Key]string{}
	for _, row := range r.rows {
		found[item.Key{RunID: "r", ItemID: row.ItemID}] = row.Status
	}
	for key := range found {
		wanted := false
		for _, k := range keys {
			wanted = wanted || k == key
		}
		if !wanted {
			delete(found, key)
		}
	}
	return found, nil
}

func (r memoryResults) Rows(_ context.Context, keys []item.Key) (map[item.Key]Row, error) {
	found := map[item.Key]Row{}
	for _, row := range r.rows {
		if key := (item.Key{RunID: "r", ItemID: row.ItemID}); slices.Contains(keys, key) {
			found[key] = row
		}
	}
	return found, nil
}

func TestStatus(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	tests := []struct {
		name   string
		run    Run
		counts Counts
		want   string
	}{
		{
			"nothing yet",
			Run{ID: "r", State: StatePublishing, CreatedAt: start},
			Counts{},
			`{"run_id":"r","state":"PUBLISHING","published":0,"ok":0,"failed":0,"outstanding":0,"complete":false,` +
				`"started_at":"2026-01-02T03:04:05Z","last_result_at":null,"items_per_second":0,"eta_seconds":null}`,
		},
		{
			"half",
			Run{ID: "r", State: StatePublished, Published: 100, CreatedAt: start},
			Counts{OK: 45, Failed: 5, FirstResultAt: at(10), LastResultAt: at(35)},
			`{"run_id":"r","state":"PUBLISHED","published":100,"ok":45,"failed":5,"outstanding":50,"complete":false,` +
				`"started_at":"2026-01-02T03:04:05Z","last_result_at":"2026-01-02T03:04:40Z","items_per_second":2,"eta_seconds":25}`,
		},
		{
			"all",
			Run{ID: "r", State: StatePublished, Published: 50, CreatedAt: start},
			Counts{OK: 45, Failed: 5, FirstResultAt: at(10), LastResultAt: at(35)},
			`{"run_id":"r","state":"PUBLISHED","published":50,"ok":45,"failed":5,"outstanding":0,"complete":true,` +
				`"started_at":"2026-01-02T03:04:05Z","last_result_at":"2026-01-02T03:04:40Z","items_per_second":2,"eta_seconds":0}`,
		},
		{
			"results ahead of the row",
			Run{ID: "r", State: StatePublishing, Published: 3, CreatedAt: start},
			Counts{OK: 9, FirstResultAt: at(1), LastResultAt: at(1)},
			`{"run_id":"r","state":"PUBLISHING","published":9,"ok":9,"failed":0,"outstanding":0,"complete":false,` +
				`"started_at":"2026-01-02T03:04:05Z","last_result_at":"2026-01-02T03:04:06Z","items_per_second":0,"eta_seconds":null}`,
		},
		{
			"everything of an unfinished publish",
			Run{ID: "r", State: StatePublishing, Published: 9, CreatedAt: start},
			Counts{OK: 9, FirstResultAt: at(0), LastResultAt: at(3)},
			`{"run_id":"r","state":"PUBLISHING","published":9,"ok":9,"failed":0,"outstanding":0,"complete":false,` +
				`"started_at":"2026-01-02T03:04:05Z","last_result_at":"2026-01-02T03:04:08Z","items_per_second":3,"eta_seconds":0}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			runs := newRuns()
			runs.rows["r"] = test.run
			s, err := ReadStatus(t.Context(), runs, memoryResults{counts: test.counts}, "r")
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ReadStatus(t.Context(), newRuns(), memoryResults{}, "r"); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v, want %v", err, ErrNoRun)
	}
}

var exportRows = []Row{
	{
		ItemID: `a"<b>`, Status: "OK", Output: `{"n":1.0,"n":9007199254740993,"s":"<\u00e9>"}`, ModelVersion: "m", Worker: "w",
		CommittedAt: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC),
	},
	{
		ItemID: "b", Status: "FAILED", ErrorClass: "item_error", ErrorMessage: "line 1\nline 2, \"x\"", ModelVersion: "m", Worker: "w",
		CommittedAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	},
	{
		ItemID: "c", Status: "OK", Output: "{\n \"a\": 1 }", ModelVersion: "m", Worker: "w",
		CommittedAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	},
}

func TestExport(t *testing.T) {
	tests := []struct {
		name, status string
		format       Format
		want         string
	}{
		{
			"json lines", "", FormatJSONL,
			`{"item_id":"a\"<b>","status":"OK","output":{"n":1.0,"n":9007199254740993,"s":"<\u00e9>"},"error_class":null,"error_message":null,` +
				`"model_version":"m","worker":"w","committed_at":"2026-01-02T03:04:05.0000006Z"}` + "\n" +
				`{"item_id":"b","status":"FAILED","output":null,"error_class":"item_error","error_message":"line 1\nline 2, \"x\"",` +
				`"model_version":"m","worker":"w","committed_at":"2026-01-02T03:04:06Z"}` + "\n" +
				`{"item_id":"c","status":"OK","output":{"a":1},"error_class":null,"error_message":null,` +
				`"model_version":"m","worker":"w","committed_at":"2026-01-02T03:04:06Z"}` + "\n",
		},
		{
			"csv of one status", "FAILED", FormatCSV,
			"item_id,status,output,error_class,error_message,model_version,worker,committed_at\n" +
				"b,FAILED,,item_error,\"line 1\nline 2, \"\"x\"\"\",m,w,2026-01-02T03:04:06Z\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			runs := newRuns()
			runs.rows["r"] = Run{ID: "r"}
			var out bytes.Buffer
			if _, err := Export(t.Context(), runs, memoryResults{rows: exportRows}, "r", Selection{Status: test.status}, test.format, &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("export (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Export(t.Context(), newRuns(), memoryResults{}, "r", Selection{}, FormatJSONL, &bytes.Buffer{}); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v, want %v", err, ErrNoRun)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestExportSaysThatItsOutputBroke(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r"}
	for _, format := range Formats {
		if _, err := Export(t.Context(), runs, memoryResults{rows: exportRows}, "r", Selection{}, format, brokenWriter{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: error %v, want %v", format, err, errBroken)
		}
	}
}
