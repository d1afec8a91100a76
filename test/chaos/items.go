package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// The runs of the items.
const (
	mainRun    = "r"
	garbledRun = "garbled"
)

// planted is one item of the dataset: its payload, as test/chaos/runner reads
// it.
type planted struct {
	ID   string `json:"id"`
	N    int    `json:"n"`
	Do   string `json:"do,omitempty"`
	MS   int    `json:"ms,omitempty"`
	Size int    `json:"size,omitempty"`
}

// moody items fail in some processes and not in others: they are published twice,
// so that one worker may fail them while another has stored their result.
const moody = "moody"

// classes are what becomes of bad items. What is not here becomes OK.
var classes = map[string]string{
	"bad": "item_error", "nan": "invalid_output", "spoil": "batch_error", "lie": "protocol_error", "poison": "runner_crash",
	"huge": "out_of_memory",
}

// plant makes n items, most of them healthy. memory is what fits into the
// model; 0 means everything.
func (d dice) plant(n, memory int) []planted {
	items := make([]planted, n)
	for i := range items {
		items[i] = planted{ID: fmt.Sprintf("i%d", i), N: d.IntN(1000)}
		if memory > 0 {
			items[i].Size = d.between(1, 3)
		}
	}
	some := func(share float64, most int, change func(*planted)) {
		if d.chance(share) {
			for range d.between(1, most) {
				change(&items[d.IntN(n)])
			}
		}
	}
	do := func(what string) func(*planted) { return func(p *planted) { p.Do = what } }
	some(0.5, 6, func(p *planted) { p.Do, p.MS = "slow", d.between(100, 600) })
	some(0.3, 3, do("flaky"))
	some(0.15, 1, do("hang"))
	some(0.3, 10, do(moody))
	some(0.5, 5, do("bad"))
	some(0.3, 3, do("nan"))
	some(0.2, 2, do("spoil"))
	some(0.2, 2, do("lie"))
	some(0.3, 2, do("poison"))
	if memory > 0 {
		some(0.5, 2, func(p *planted) { p.Do, p.Size = "huge", 10*memory })
	}
	return items
}

// lines is the dataset as a JSONL file.
func lines(items []planted) []byte {
	var b []byte
	for _, it := range items {
		line, err := json.Marshal(it)
		if err != nil {
			continue // a struct of strings and numbers always encodes
		}
		b = append(append(b, line...), '\n')
	}
	return b
}

// wants are what must become of all items of a plan.
func (p *plan) wants() map[audit.Key]audit.Want {
	wants := map[audit.Key]audit.Want{}
	for _, it := range p.items {
		want := audit.Want{Status: "OK", Output: fmt.Sprintf(`{"square":%d}`, it.N*it.N)}
		if class := classes[it.Do]; class != "" {
			want = audit.Want{Status: "FAILED", Class: class}
		}
		if it.Do == moody {
			want.Status, want.Class = "", "item_error"
		}
		wants[audit.Key{Run: mainRun, Item: it.ID}] = want
	}
	for i := range p.garbled {
		wants[audit.Key{Run: garbledRun, Item: garbledID(i)}] = audit.Want{Status: "FAILED", Class: "invalid_input"}
	}
	return wants
}

func garbledID(i int) string { return fmt.Sprintf("g%d", i) }

// foreignNames are the names of the planted messages that are no item.
func (p *plan) foreignNames() []string {
	var names []string
	for i := range p.foreign {
		names = append(names, fmt.Sprintf("f%d", i))
	}
	return slices.Clip(names)
}
