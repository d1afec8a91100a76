package crash

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDesignSaysWhatHappensAtEveryPoint(t *testing.T) {
	t.Parallel()
	design, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Points() {
		if !strings.Contains(string(design), "\n| `"+string(p)+"` |") {
			t.Errorf("docs/design.md has no row for %s", p)
		}
	}
}

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
	type answer struct{ here, kill bool }
	var got []answer
	for _, at := range []Point{BeforeCommit, AfterCommit, BeforeCommit, AfterCommit, BeforeCommit, AfterCommit} {
		here, kill := p.reached(at)
		got = append(got, answer{here, kill})
	}
	if want := []answer{3: {true, true}, 5: {true, false}}; !slices.Equal(got, want) {
		t.Errorf("reached: got %v, want %v", got, want)
	}
	never, err := parse("")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range Points() {
		if here, _ := never.reached(at); here {
			t.Errorf("without a plan %s is reached", at)
		}
	}
}
