package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// end is G8: the run becomes complete, and what the publisher says of it agrees
// with the rows. No excuse.
func (c *checker) end() {
	rows := map[Key]Row{}
	for i := range c.events {
		if e := &c.events[i]; e.Kind == Committed {
			rows[e.Item] = e.Row
		}
	}
	last := &Event{At: c.last}
	keys := slices.SortedFunc(maps.Keys(c.facts.Items), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Item, b.Item))
	})
	for _, key := range keys {
		if _, found := rows[key]; !found {
			c.report("G8", &Event{At: c.last, Item: key}, "the item has no row at the end")
		}
	}
	if !c.facts.Finished {
		c.report("G8", last, "the run did not end in time: %s", c.facts.Unfinished)
		return
	}
	c.foreign(last)
	c.said(rows, keys, last)
}

// foreign checks that what is no item was kept on the dead-letter topic.
func (c *checker) foreign(last *Event) {
	buried := map[string]bool{}
	for i := range c.events {
		if e := &c.events[i]; e.Kind == Published && e.Dead {
			buried[e.Foreign] = true
		}
	}
	for _, name := range c.facts.Foreign {
		if !buried[name] {
			c.report("G8", last, "the planted message %q, which is no item, is not on the dead-letter topic", name)
		}
	}
}

// said checks the publisher's words.
func (c *checker) said(rows map[Key]Row, keys []Key, last *Event) {
	end := c.facts.End
	var ok, failed, published int64
	for _, key := range keys {
		row, found := rows[key]
		if key.Run != end.Run {
			continue
		}
		published++
		switch {
		case found && row.Status == "OK":
			ok++
		case found:
			failed++
		}
		exported, found := end.Exported[key]
		if !found || exported.Status != row.Status || exported.Output != row.Output || exported.Class != row.Class {
			c.report("G8", &Event{At: c.last, Item: key}, "`publisher export` says %s %s%s, the row is %s %s%s",
				exported.Status, exported.Output, exported.Class, row.Status, row.Output, row.Class)
		}
	}
	want := Status{State: "PUBLISHED", Published: published, OK: ok, Failed: failed, Outstanding: published - ok - failed, Complete: true}
	if end.Status != want {
		c.report("G8", last, "`publisher status` says %+v, want %+v", end.Status, want)
	}
	if end.VerifyCode != 0 {
		c.report("G8", last, "`publisher verify` exits with %d: %s", end.VerifyCode, strings.TrimSpace(end.VerifyText))
	}
	if n := int64(len(end.Exported)); n != ok+failed {
		c.report("G8", last, "`publisher export` printed %d rows, want %d", n, ok+failed)
	}
	if end.Left != 0 || end.Acked != end.Published || end.DeadLettered != 0 {
		c.report("G8", last, "the subscription is not empty: %d published, %d acked, %d dead letters, %d left",
			end.Published, end.Acked, end.DeadLettered, end.Left)
	}
}
