package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/publish"
)

func TestLiveViewIsDrawnInItsPlace(t *testing.T) {
	var out bytes.Buffer
	width := 60
	v := &live{out: &out, width: func() int { return width }}
	now := time.Unix(1000, 0)
	show := func(s publish.Status, last bool) []string {
		t.Helper()
		out.Reset()
		if err := v.show(s, now, last); err != nil {
			t.Fatal(err)
		}
		drawn := strings.NewReplacer(clearLine, "", clearRest, "", green, "", red, "", plain, "").Replace(out.String())
		return strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
	}
	s := publish.Status{RunID: "first", State: publish.StatePublished, Published: 1000, Outstanding: 1000}
	want := []string{
		"run first  PUBLISHED",
		"  0% [---------------------------------------------------]",
		"ok 0  failed 0  outstanding 1,000 of 1,000",
		"0.0 items/s  ETA unknown",
	}
	if diff := cmp.Diff(want, show(s, false)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	now = now.Add(2 * time.Second)
	s.OK, s.Failed, s.Outstanding = 199, 1, 800
	s.Failures = []publish.Failure{{Class: "item_error", Items: 1, Example: strings.Repeat("x", 80)}}
	want = []string{
		"\x1b[4Arun first  PUBLISHED",
		" 20% [##########x----------------------------------------]",
		"ok 199  failed 1  outstanding 800 of 1,000",
		"100.0 items/s  ETA 8s",
		"  failed item_error: 1, such as " + strings.Repeat("x", 27),
	}
	if diff := cmp.Diff(want, show(s, false)); diff != "" {
		t.Errorf("second (-want +got):\n%s", diff)
	}
	now = now.Add(8 * time.Second)
	s.OK, s.Outstanding, s.Complete = 999, 0, true
	width = 20
	want = []string{
		"\x1b[5Arun first  PUBLISHE",
		"100% [##########x]",
		"ok 999  failed 1  o",
		"100.0 items/s  ETA ",
		"  failed item_error",
		"see them with: publisher export --run first --status FAILED",
	}
	if diff := cmp.Diff(want, show(s, true)); diff != "" {
		t.Errorf("last (-want +got):\n%s", diff)
	}
}

func TestLinesShowTheRateOfLate(t *testing.T) {
	var out bytes.Buffer
	v := &lines{out: &out}
	s := publish.Status{RunID: "first", Published: 100, Outstanding: 100}
	now := time.Unix(1000, 0)
	for range 3 {
		if err := v.show(s, now, false); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Second)
		s.OK, s.Outstanding = s.OK+20, s.Outstanding-20
	}
	want := "first: ok 0, failed 0, outstanding 100 of 100, 0.0 items/s, ETA unknown\n" +
		"first: ok 20, failed 0, outstanding 80 of 100, 10.0 items/s, ETA 8s\n" +
		"first: ok 40, failed 0, outstanding 60 of 100, 10.0 items/s, ETA 6s\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
