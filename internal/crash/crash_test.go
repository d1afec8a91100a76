package crash

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, p := range Points() {
		got, err := parse(string(p))
		if err != nil || got.point != p || got.pass != 1 {
			t.Errorf("parse(%q): got %+v, %v", p, got, err)
		}
	}
	if got, err := parse("after_commit:3"); err != nil || got.point != AfterCommit || got.pass != 3 {
		t.Errorf("parse(after_commit:3): got %+v, %v", got, err)
	}
	for _, value := range []string{"after_comit", "after_commit:", "after_commit:0", "after_commit:-1", "after_commit:x", ":1", " "} {
		if got, err := parse(value); err == nil {
			t.Errorf("parse(%q): got %+v, want an error", value, got)
		}
	}
}

func TestReachedCountsItsOwnPoint(t *testing.T) {
	t.Parallel()
	p, err := parse("after_commit:2")
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, at := range []Point{BeforeCommit, AfterCommit, BeforeCommit, AfterCommit, AfterCommit} {
		got = append(got, p.reached(at))
	}
	if want := []bool{false, false, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("reached: got %v, want %v", got, want)
	}
	never, err := parse("")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range Points() {
		if never.reached(at) {
			t.Errorf("without a plan %s is reached", at)
		}
	}
}
