package progress

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	l.Begin("checking", -1)
	for second := range 11 {
		now = time.Unix(1000+int64(second), 0)
		l.Show(int64(second*50), 0)
	}
	l.End()
	l.Begin("publishing", 1000)
	start := now
	for second := range 26 {
		now = start.Add(time.Duration(second) * time.Second)
		l.Show(int64(second*20), int64(second*400))
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
		line(map[string]any{"phase": "checking", "items": 500.0, "bytes": 0.0, "items_per_second": 50.0}),
		line(map[string]any{"phase": "publishing", "items": 200.0, "bytes": 4000.0, "items_per_second": 20.0, "total": 1000.0, "eta_seconds": 40.0}),
		line(map[string]any{"phase": "publishing", "items": 400.0, "bytes": 8000.0, "items_per_second": 20.0, "total": 1000.0, "eta_seconds": 30.0}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestBarDraws(t *testing.T) {
	// A bubble fails when something still runs after its end.
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := NewBar(&out)
		b.Begin("checking", -1)
		b.Show(3, 0)
		b.End()
		b.Begin("publishing", 4)
		<-time.After(time.Second)
		b.Show(4, 100)
		b.End()
		for _, want := range []string{"checking", "(3/-", "publishing", "(4/4"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("bar drew %q, want %q in it", out.String(), want)
			}
		}
	})
}
