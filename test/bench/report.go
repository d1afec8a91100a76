package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// report is what one run of the program has measured.
type report struct {
	Machine string    `json:"machine"`
	Delays  []string  `json:"delays"`
	Begun   time.Time `json:"begun"`
	Took    string    `json:"took"`
	Lines   []line    `json:"lines"`
}

// line is one figure.
type line struct {
	Part  string  `json:"part"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// AtLeast or AtMost is the goal, if there is one, and Met whether it is
	// reached.
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
	Met     *bool    `json:"met,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// add adds a line without a goal, and shows it at once.
func (b *bench) add(l line) {
	l.Part = b.part
	b.report.Lines = append(b.report.Lines, l)
	fmt.Fprintf(b.progress, "%s: %s: %s %s (%s)\n", l.Part, l.What, l.figure(), l.met(), l.Note)
}

// atLeast and atMost add a line with a goal.
func (b *bench) atLeast(goal float64, l line) {
	met := l.Value >= goal
	l.AtLeast, l.Met = &goal, &met
	b.add(l)
}

func (b *bench) atMost(goal float64, l line) {
	met := l.Value <= goal
	l.AtMost, l.Met = &goal, &met
	b.add(l)
}

func (l line) figure() string { return number(l.Value) + " " + l.Unit }

func (l line) goal() string {
	switch {
	case l.AtLeast != nil:
		return ">= " + number(*l.AtLeast)
	case l.AtMost != nil:
		return "<= " + number(*l.AtMost)
	}
	return ""
}

func (l line) met() string {
	switch {
	case l.Met == nil:
		return ""
	case *l.Met:
		return "met"
	}
	return "MISSED"
}

// number has as many digits as mean something.
func number(v float64) string {
	switch {
	case v >= 1000 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", r.Machine)
	for _, d := range r.Delays {
		fmt.Fprintf(out, "delayed: %s\n", d)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tWHAT\tMEASURED\tGOAL\tMET\tNOTE")
	for _, l := range r.Lines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Part, l.What, l.figure(), l.goal(), l.met(), l.Note)
	}
	_ = table.Flush() // to a terminal
	fmt.Fprintf(out, "\nmeasured in %s\n", r.Took)
}

func (r report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
