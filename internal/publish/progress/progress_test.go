package progress

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

func TestLogWritesALineEveryTenSeconds(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	l.Begin("checking", -1, dataset.Counts{})
	for second := range 11 {
		now = time.Unix(1000+int64(second), 0)
		l.Show(dataset.Counts{Read: int64(second * 50), Items: int64(second*50) - 1, Rejected: 1})
	}
	l.End()
	l.Begin("publishing", 1000, dataset.Counts{Items: 100})
	start := now
	for second := range 26 {
		now = start.Add(time.Duration(second) * time.Second)
		l.Show(dataset.Counts{Items: int64(100 + second*20), Bytes: int64(second * 400)})
	}
	l.End()
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		got = append(got, record)
	}
	line := func(more map[string]any) map[string]any {
		more["level"], more["msg"] = "INFO", "progress"
		return more
	}
	want := []map[string]any{
		line(map[string]any{"phase": "checking", "items": 499.0, "bytes": 0.0, "bad_rows": 1.0, "items_per_second": 50.0}),
		line(map[string]any{"phase": "publishing", "items": 300.0, "bytes": 4000.0, "bad_rows": 0.0, "items_per_second": 20.0, "total": 1000.0, "eta_seconds": 35.0}),
		line(map[string]any{"phase": "publishing", "items": 500.0, "bytes": 8000.0, "bad_rows": 0.0, "items_per_second": 20.0, "total": 1000.0, "eta_seconds": 25.0}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestBarTellsTheTruth(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	width := 100
	b := NewBar(&out, func() int { return width })
	b.now = func() time.Time { return now }
	last := func() string {
		drawn := strings.Split(strings.TrimSuffix(out.String(), "\n"), lineStart)
		return strings.TrimSuffix(drawn[len(drawn)-1], clearLine)
	}
	want := func(line string) {
		t.Helper()
		if diff := cmp.Diff(line, last()); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
	}
	b.Begin("checking", -1, dataset.Counts{})
	now = now.Add(time.Second)
	b.Show(dataset.Counts{Read: 1200, Items: 1199, Rejected: 1, Bytes: 120_000})
	want("checking 1,200 rows, 120 KB, 1,200 items/s, 1 bad rows")
	b.End()

	// What an earlier publish has done is no part of the rate.
	b.Begin("publishing", 4000, dataset.Counts{Items: 1000, Bytes: 100_000})
	want("publishing  25% [########--------------------------] 1,000 of 4,000, 100 KB, 0 items/s, ETA unknown")
	for second := range 20 {
		now = now.Add(time.Second)
		b.Show(dataset.Counts{Items: int64(1000 + 10*(second+1)), Bytes: 1_234_567})
	}
	want("publishing  30% [##########-------------------------] 1,200 of 4,000, 1.2 MB, 10 items/s, ETA 4m40s")
	// Ten seconds later the rate is that of now, and not of the mean.
	for second := range 10 {
		now = now.Add(time.Second)
		b.Show(dataset.Counts{Items: int64(1200 + 100*(second+1)), Bytes: 1_234_567})
	}
	want("publishing  55% [###################-----------------] 2,200 of 4,000, 1.2 MB, 100 items/s, ETA 18s")
	width = 40
	now = now.Add(time.Second)
	b.Show(dataset.Counts{Items: 3999})
	want("publishing  99% 3,999 of 4,000, 0 B, 26")
	b.Show(dataset.Counts{Items: 4000}) // too soon to draw
	want("publishing  99% 3,999 of 4,000, 0 B, 26")
	width = 100
	b.End()
	want("publishing 100% [########################################] 4,000 of 4,000, 0 B, 270 items/s, ETA 0s")
	if !strings.HasSuffix(out.String(), "\n") {
		t.Error("the line does not end")
	}
}

func TestRateIsThatOfLate(t *testing.T) {
	var r Rate
	now := time.Unix(0, 0)
	if r.PerSecond() != 0 {
		t.Error("a rate of nothing")
	}
	for i := range 100_000 { // samples come fast; few are kept
		now = now.Add(time.Millisecond)
		r.Add(now, int64(5*i))
	}
	if got := r.PerSecond(); got < 4990 || got > 5010 {
		t.Errorf("%.1f a second, want 5000", got)
	}
	if most := int(rateSpan/rateStep) + 3; len(r.samples) > most {
		t.Errorf("%d samples are kept, want at most %d", len(r.samples), most)
	}
	for range 11 { // and then nothing
		now = now.Add(time.Second)
		r.Add(now, 5*99_999)
	}
	if got := r.PerSecond(); got != 0 {
		t.Errorf("%.1f a second after a standstill", got)
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := Number(n); got != want {
			t.Errorf("number %d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "1.5 KB", 123_456: "123 KB", 40_000_000_000: "40.0 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		1400 * time.Millisecond: "1s", 90 * time.Second: "1m30s", 3*time.Hour + 29*time.Minute + 40*time.Second: "3h30m", 80 * time.Hour: "3 days",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
	if got := Gauge(999_999, 1_000_000, 10); got != " 99% [#########-]" {
		t.Errorf("gauge %q", got)
	}
	if got := Gauge(0, 0, 5); got != "100% [#####]" {
		t.Errorf("gauge %q of nothing", got)
	}
}
