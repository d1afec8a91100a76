package publish

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/item"
)

// found notes what Verify finds.
type found struct{ missing, failed, unknown []string }

func (f *found) Missing(e dataset.Entry) {
	f.missing = append(f.missing, e.ItemID+" "+e.Position.String())
}

func (f *found) Failed(e dataset.Entry) {
	f.failed = append(f.failed, e.ItemID+" "+e.Position.String())
}
func (f *found) Unknown(row Row) { f.unknown = append(f.unknown, row.ItemID) }

func TestVerify(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r"}
	data := numbered(2*lookupItems + 7)
	data.ids[17] = "!bad" // no item, so nothing is missing
	var results memoryResults
	for i, id := range data.ids {
		switch {
		case i == 3 || i == 17 || i == lookupItems || i == len(data.ids)-1:
		case i%300 == 1:
			results.rows = append(results.rows, Row{ItemID: id, Status: "FAILED"})
		default:
			results.rows = append(results.rows, Row{ItemID: id, Status: "OK"})
		}
	}
	results.counts = Counts{OK: 999, Failed: 4}
	verify := func() (Verified, found) {
		t.Helper()
		var f found
		v, err := Verify(t.Context(), runs, results, "r", data, &f)
		if err != nil {
			t.Fatal(err)
		}
		return v, f
	}
	wantFound := found{
		missing: []string{"3 rows:4", "500 rows:501", "1006 rows:1007"},
		failed:  []string{"1 rows:2", "301 rows:302", "601 rows:602", "901 rows:902"},
	}
	v, f := verify()
	if diff := cmp.Diff(Verified{Items: 1006, OK: 999, Failed: 4, Missing: 3}, v); diff != "" {
		t.Errorf("verified (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantFound, f, cmp.AllowUnexported(found{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}

	// Rows of other items, some of them FAILED.
	results.rows = append(results.rows, Row{ItemID: "x", Status: "OK"}, Row{ItemID: "!bad", Status: "FAILED"})
	results.counts = Counts{OK: 1000, Failed: 5}
	wantFound.unknown = []string{"x", "!bad"}
	v, f = verify()
	if diff := cmp.Diff(Verified{Items: 1006, OK: 999, Failed: 4, Missing: 3, Unknown: 2}, v); diff != "" {
		t.Errorf("verified (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantFound, f, cmp.AllowUnexported(found{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}

	if _, err := Verify(t.Context(), newRuns(), results, "r", data, &f); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v, want %v", err, ErrNoRun)
	}
}

// brokenResults fails look-ups.
type brokenResults struct{ memoryResults }

func (brokenResults) Statuses(context.Context, []item.Key) (map[item.Key]string, error) {
	return nil, errBroken
}

func TestVerifyThatCannotLookUp(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r"}
	for _, n := range []int{1, 100 * lookupItems} {
		if _, err := Verify(t.Context(), runs, brokenResults{}, "r", numbered(n), &found{}); !errors.Is(err, errBroken) {
			t.Errorf("%d items: error %v, want %v", n, err, errBroken)
		}
	}
}
