package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// story is a made-up event log of one item "r/i", whose payload is healthy, and
// of the worker w.
type story []audit.Event

var item = audit.Key{Run: "r", Item: "i"}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (s story) add(at int, e audit.Event) story {
	e.At = ms(at)
	return append(slices.Clip(s), e)
}

func (s story) started(at int, worker string) story {
	return s.add(at, audit.Event{Kind: audit.Started, Worker: worker})
}

func (s story) signal(at int, name string) story {
	return s.add(at, audit.Event{Kind: audit.Signalled, Worker: "w", Signal: name})
}

func (s story) exited(at, code int) story {
	return s.add(at, audit.Event{Kind: audit.Exited, Worker: "w", Code: code})
}

// step is an event of a delivery.
func (s story) step(at int, kind audit.Kind, worker string, delivery uint64) story {
	return s.add(at, audit.Event{Kind: kind, Item: item, Worker: worker, Message: 1, Delivery: delivery})
}

// late is a settlement of a delivery that is over: nobody knows whose.
func (s story) late(at int, kind audit.Kind, delivery uint64) story {
	return s.add(at, audit.Event{Kind: kind, Delivery: delivery})
}

func (s story) row(at int, r audit.Row) story {
	r.ModelVersion = "v"
	return s.add(at, audit.Event{Kind: audit.Committed, Item: item, Row: r})
}

func (s story) ok(at int) story { return s.row(at, audit.Row{Status: "OK", Output: "1"}) }

func (s story) model(at int, worker string) story {
	return s.add(at, audit.Event{Kind: audit.Modelled, Item: item, Worker: worker})
}

func (s story) answered(at int) story {
	return s.add(at, audit.Event{Kind: audit.Answered, Item: item, Worker: "w"})
}

func (s story) fault(from, to int, service string) story {
	s = s.add(from, audit.Event{Kind: audit.FaultBegan, Fault: from, Service: service})
	s = s.add(to, audit.Event{Kind: audit.FaultEnded, Fault: from, Service: service})
	slices.SortStableFunc(s, func(a, b audit.Event) int { return int(a.At - b.At) })
	return s
}

// good is a run in which everything is as it should be.
func good() story {
	return story{}.started(0, "w").step(10, audit.Published, "", 0).step(20, audit.Delivered, "w", 1).model(30, "w").ok(40).
		step(50, audit.Acked, "w", 1).signal(60, "TERM").exited(70, 0)
}

func facts() audit.Facts {
	return audit.Facts{
		Lease: 10 * time.Second, Drain: 6 * time.Second, ModelVersion: "v", Finished: true,
		Items: map[audit.Key]audit.Want{item: {Status: "OK", Output: "1"}},
		End: audit.End{
			Run: "r", Status: audit.Status{State: "PUBLISHED", Published: 1, OK: 1, Complete: true},
			Exported:  map[audit.Key]audit.Row{item: {Status: "OK", Output: "1"}},
			Published: 1, Acked: 1,
		},
	}
}

// check returns the guarantees that are found broken.
func check(s story, f audit.Facts) []string {
	var broken []string
	for _, v := range audit.Check(s, f) {
		broken = append(broken, v.Guarantee)
	}
	return slices.Compact(broken)
}

func TestStories(t *testing.T) {
	t.Parallel()
	begin := story{}.started(0, "w").step(10, audit.Published, "", 0)
	held := begin.step(20, audit.Delivered, "w", 1)
	done := held.ok(40).step(50, audit.Acked, "w", 1)
	failed := audit.Row{Status: "FAILED", Class: "batch_error"}
	for name, c := range map[string]struct {
		story story
		want  []string
	}{
		"good": {good(), nil},

		"ack without a row":           {held.step(50, audit.Acked, "w", 1).ok(60), []string{"G1"}},
		"ack of a dead letter's copy": {done.add(60, audit.Event{Kind: audit.Acked, Dead: true, Item: audit.Key{Run: "r", Item: "x"}}), nil},
		"foreign message acked": {
			done.add(60, audit.Event{Kind: audit.Acked, Foreign: "f", Message: 2}), []string{"G1"},
		},
		"foreign message buried, then acked": {
			done.add(55, audit.Event{Kind: audit.Published, Dead: true, Foreign: "f", Reason: "no run"}).
				add(60, audit.Event{Kind: audit.Acked, Foreign: "f", Message: 2}), nil,
		},

		"acked twice":                          {done.late(60, audit.AckedLate, 1), []string{"G2"}},
		"acked twice, Pub/Sub lost the reply":  {done.late(60, audit.AckedLate, 1).fault(45, 48, audit.PubSub), nil},
		"acked twice, Spanner was not well":    {done.late(60, audit.AckedLate, 1).fault(45, 48, audit.Spanner), []string{"G2"}},
		"acked twice, long after a fault":      {done.late(9000, audit.AckedLate, 1).fault(11, 12, audit.PubSub).late(9001, audit.AckedLate, 1), nil},
		"acked, then nacked, whatever Pub/Sub": {done.late(60, audit.NackedLate, 1).fault(45, 55, audit.PubSub), []string{"G2"}},
		"settled, but never delivered":         {done.late(60, audit.AckedLate, 7), []string{"G2"}},
		"acked after the lease": {
			held.step(10020, audit.Expired, "w", 1).ok(10030).late(10040, audit.AckedLate, 1).signal(10040, "KILL"), []string{"G2"},
		},
		"acked after the lease, by one who stood still": {
			held.signal(30, "STOP").step(10020, audit.Expired, "w", 1).signal(10025, "CONT").ok(10030).late(10040, audit.AckedLate, 1), nil,
		},

		"acked long after it woke": {
			held.signal(30, "STOP").step(10020, audit.Expired, "w", 1).signal(10025, "CONT").ok(10030).late(12040, audit.AckedLate, 1), []string{"G2"},
		},
		"acked in time by its own clock": {
			begin.signal(15, "STOP").step(20, audit.Delivered, "w", 1).signal(9000, "CONT").step(10020, audit.Expired, "w", 1).ok(12030).late(12040, audit.AckedLate, 1), nil,
		},
		"acked again by one who stood still": {
			held.ok(30).signal(40, "STOP").step(41, audit.Acked, "w", 1).signal(4000, "CONT").late(4100, audit.AckedLate, 1), nil,
		},
		"acked again long after it woke": {
			held.ok(30).signal(40, "STOP").step(41, audit.Acked, "w", 1).signal(4000, "CONT").late(8000, audit.AckedLate, 1), []string{"G2"},
		},

		"lease ran out at a healthy worker": {held.step(10020, audit.Expired, "w", 1).ok(10030), []string{"G2"}},
		"lease of a killed worker ran out": {
			held.signal(30, "KILL").exited(31, -1).step(10020, audit.Expired, "w", 1).ok(10030), nil,
		},
		"lease ran out while Pub/Sub was not well": {held.step(10020, audit.Expired, "w", 1).ok(10030).fault(9000, 9100, audit.PubSub), nil},
		"lease ran out after a fault before it":    {begin.fault(11, 12, audit.PubSub).step(9000, audit.Delivered, "w", 1).step(19000, audit.Expired, "w", 1).ok(19001), []string{"G2"}},

		"FAILED over OK":    {done.row(60, failed).ok(70), []string{"G3", "G6"}},
		"second row":        {done.row(60, audit.Row{Status: "OK", Output: "1", Shard: 3}), []string{"G3"}},
		"the same row once": {done.ok(60), nil},

		"model run for a stored result": {
			done.step(60, audit.Delivered, "w", 2).model(70, "w").step(80, audit.Acked, "w", 2), []string{"G4"},
		},
		"model run of a delivery from before the row": {
			held.step(30, audit.Delivered, "v", 2).started(31, "v").ok(40).model(50, "v").step(60, audit.Acked, "v", 2).step(60, audit.Acked, "w", 1), nil,
		},
		"model run of another's later delivery": {
			held.ok(40).started(41, "v").step(50, audit.Delivered, "v", 2).model(60, "v").step(70, audit.Acked, "v", 2).step(70, audit.Acked, "w", 1),
			[]string{"G4"},
		},
		"model run long after the earlier delivery was nacked": {
			held.step(30, audit.Nacked, "w", 1).ok(40).step(50, audit.Delivered, "w", 2).model(2000, "w").step(2010, audit.Acked, "w", 2), []string{"G4"},
		},

		"one run, shared by twins": {held.step(25, audit.Delivered, "w", 2).model(30, "w").answered(35).ok(40).step(50, audit.Acked, "w", 1).step(50, audit.Acked, "w", 2), nil},
		"twins run by themselves": {
			held.step(25, audit.Delivered, "w", 2).model(30, "w").answered(35).model(36, "w").answered(38).ok(40).
				step(50, audit.Acked, "w", 1).step(50, audit.Acked, "w", 2), []string{"G4"},
		},
		"run anew after a nack": {
			held.model(30, "w").answered(35).step(6000, audit.Nacked, "w", 1).step(7000, audit.Delivered, "w", 2).model(7010, "w").answered(7020).ok(7030).
				step(7040, audit.Acked, "w", 2), nil,
		},

		"run anew for another delivery when the lease of the first was lost": {
			held.signal(30, "STOP").step(10020, audit.Expired, "w", 1).signal(11000, "CONT").model(11005, "w").step(11010, audit.Delivered, "w", 2).
				answered(11020).ok(11021).model(11022, "w").answered(11030).ok(11031).step(11040, audit.Acked, "w", 2), []string{"G4"},
		},

		"drained":                     {done.signal(60, "TERM").exited(5000, 0), nil},
		"drained too slowly":          {done.signal(60, "TERM").exited(6600, 0), []string{"G5"}},
		"drained with another code":   {done.signal(60, "TERM").exited(70, 1), []string{"G5"}},
		"not drained at all":          {done.signal(60, "TERM"), []string{"G5"}},
		"killed while it drained":     {held.signal(30, "TERM").signal(40, "KILL").exited(41, -1).ok(50), nil},
		"stood still, then drained":   {held.signal(25, "STOP").signal(28, "CONT").signal(30, "TERM").exited(40, 0).ok(50), nil},
		"left something behind":       {held.signal(30, "TERM").exited(40, 0).ok(50), []string{"G5"}},
		"gave back before its end":    {held.signal(30, "TERM").step(35, audit.Nacked, "w", 1).exited(40, 0).ok(50), nil},
		"gave back after its end":     {held.signal(30, "TERM").exited(40, 0).step(45, audit.Nacked, "w", 1).ok(50), []string{"G5"}},
		"left behind, Pub/Sub unwell": {held.signal(30, "TERM").exited(40, 0).ok(50).fault(31, 32, audit.PubSub), nil},

		"gave back late what waited": {held.signal(30, "TERM").step(3000, audit.Nacked, "w", 1).exited(3010, 0).ok(4000), []string{"G5"}},
		"gave back late what was in the model": {
			held.model(25, "w").signal(30, "TERM").step(3000, audit.Nacked, "w", 1).exited(3010, 0).ok(4000), nil,
		},

		"ended by itself": {done.exited(60, 3), []string{"G6"}},
		"healthy item FAILED, later OK": {
			held.row(30, failed).ok(40).step(50, audit.Acked, "w", 1), []string{"G6"},
		},
		"dead-lettered":      {done.step(60, audit.DeadLettered, "w", 2), []string{"G6"}},
		"wrong output":       {held.row(40, audit.Row{Status: "OK", Output: "2"}).step(50, audit.Acked, "w", 1).ok(60), []string{"G7"}},
		"row of nobody":      {done.add(60, audit.Event{Kind: audit.Committed, Item: audit.Key{Run: "r", Item: "x"}}), []string{"G8"}},
		"no row":             {held, []string{"G8"}},
		"wrong version once": {held.add(40, audit.Event{Kind: audit.Committed, Item: item, Row: audit.Row{Status: "OK", Output: "1"}}).ok(50), []string{"G7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, check(c.story, facts())); diff != "" {
				t.Errorf("guarantees (-want +got):\n%s\n%v", diff, audit.Check(c.story, facts()))
			}
		})
	}
}

// What is planted as bad must fail, and as what it is.
func TestVerdictsOnBadItems(t *testing.T) {
	t.Parallel()
	held := story{}.started(0, "w").step(10, audit.Published, "", 0).step(20, audit.Delivered, "w", 1)
	f := facts()
	f.Items[item] = audit.Want{Status: "FAILED", Class: "item_error"}
	f.End.Status.OK, f.End.Status.Failed = 0, 1
	f.End.Exported[item] = audit.Row{Status: "FAILED", Class: "item_error"}
	for name, c := range map[string]struct {
		row  audit.Row
		want string
	}{
		"as planted":     {audit.Row{Status: "FAILED", Class: "item_error"}, ""},
		"OK":             {audit.Row{Status: "OK", Output: "1"}, "G6"},
		"of other class": {audit.Row{Status: "FAILED", Class: "runner_crash"}, "G6"},
	} {
		got := strings.Join(check(held.row(30, c.row).step(40, audit.Acked, "w", 1), f)[:min(1, len(check(held.row(30, c.row), f)))], " ")
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Each thing that the publisher says is compared.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*audit.Facts){
		"not finished":        func(f *audit.Facts) { f.Finished = false },
		"state":               func(f *audit.Facts) { f.End.Status.State = "PUBLISHING" },
		"published":           func(f *audit.Facts) { f.End.Status.Published = 2 },
		"ok":                  func(f *audit.Facts) { f.End.Status.OK = 0 },
		"failed":              func(f *audit.Facts) { f.End.Status.Failed = 1 },
		"outstanding":         func(f *audit.Facts) { f.End.Status.Outstanding = 1 },
		"not complete":        func(f *audit.Facts) { f.End.Status.Complete = false },
		"verify":              func(f *audit.Facts) { f.End.VerifyCode = 4 },
		"export lacks a row":  func(f *audit.Facts) { delete(f.End.Exported, item) },
		"export differs":      func(f *audit.Facts) { f.End.Exported[item] = audit.Row{Status: "OK", Output: "2"} },
		"export has too much": func(f *audit.Facts) { f.End.Exported[audit.Key{Run: "r", Item: "x"}] = audit.Row{} },
		"messages left":       func(f *audit.Facts) { f.End.Left = 1 },
		"acked too few":       func(f *audit.Facts) { f.End.Acked = 0 },
		"foreign lost":        func(f *audit.Facts) { f.Foreign = []string{"f"} },
	} {
		f := facts()
		change(&f)
		if got := check(good(), f); !slices.Equal(got, []string{"G8"}) {
			t.Errorf("%s: got %v, want G8", name, got)
		}
	}
}

func TestTimelineTellsOfTheItemAndItsWorkers(t *testing.T) {
	t.Parallel()
	other := audit.Key{Run: "r", Item: "other"}
	s := good().late(71, audit.AckedLate, 1).started(72, "v").
		add(73, audit.Event{Kind: audit.Committed, Item: other}).fault(74, 75, audit.PubSub)
	text := audit.Timeline(s, item, "")
	for _, want := range []string{"published", "delivered", "model", "committed", "acked", "SIGTERM", "exited", "acked late", "fault begins"} {
		if !strings.Contains(text, want) {
			t.Errorf("the timeline lacks %q:\n%s", want, text)
		}
	}
	if got, want := strings.Count(text, "\n"), len(good())+3; got != want {
		t.Errorf("the timeline has %d lines, want %d:\n%s", got, want, text)
	}
	if !strings.Contains(text, fmt.Sprintf("%9.3fs", 0.02)) {
		t.Errorf("the timeline has no relative times:\n%s", text)
	}
}
