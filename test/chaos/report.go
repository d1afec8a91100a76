package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// What is printed of one run is bounded; the rest is in its folder.
const (
	maxViolations = 20
	maxTimelines  = 3
)

// write prints the plan as a few lines.
func (p *plan) write(w io.Writer) {
	kinds := map[string]int{}
	for _, it := range p.items {
		if it.Do != "" {
			kinds[it.Do]++
		}
	}
	fmt.Fprintf(w, "seed %d: %d items %v, %d foreign, %d garbled, %d a second, %d workers with %d models, batches of %d in %v, %d held, exactly once %v, memory %d, calm at %.3fs\n",
		p.seed, len(p.items), kinds, p.foreign, p.garbled, p.rate, p.workers, p.models, p.batchSize, p.sleep, p.held, p.exactly, p.memory, p.calm.Seconds())
	for _, a := range p.actions {
		fmt.Fprintln(w, "   ", a)
	}
}

// write prints a run that failed: how to repeat it, what was violated, and what
// happened.
func (o *outcome) write(w io.Writer) {
	fmt.Fprintf(w, "\nFAILED  seed %d, %.1fs, %d violations; repeat with: make chaos RUNS=1 SEED=%d\n", o.plan.seed, o.took.Seconds(), len(o.violations), o.plan.seed)
	fmt.Fprintf(w, "logs of its processes: %s\n", relative(o.dir))
	o.plan.write(w)
	for i, v := range o.violations {
		if i == maxViolations {
			fmt.Fprintf(w, "   and %d more\n", len(o.violations)-i)
			break
		}
		fmt.Fprintln(w, "  ", v)
	}
	told := map[audit.Violation]bool{}
	for _, v := range o.violations {
		subject := audit.Violation{Item: v.Item, Worker: v.Worker}
		if len(told) == maxTimelines || told[subject] {
			continue
		}
		told[subject] = true
		fmt.Fprintf(w, "\n  timeline of %s\n", strings.TrimSpace(v.Item.String()+" "+v.Worker))
		fmt.Fprint(w, audit.Timeline(o.events, v.Item, v.Worker))
	}
}

// keep writes all violations and all events into the run's folder.
func (o *outcome) keep() error {
	var violations strings.Builder
	for _, v := range o.violations {
		fmt.Fprintln(&violations, v)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(o.dir, "violations.txt"), []byte(violations.String()), 0o644),
		os.WriteFile(filepath.Join(o.dir, "events.txt"), []byte(audit.Everything(o.events)), 0o644),
	)
}

// relative shortens a path for people.
func relative(path string) string {
	if short, err := filepath.Rel(".", path); err == nil {
		return short
	}
	return path
}

// summary adds up runs.
type summary struct {
	runs, failed, violations int
	items, repeated          int
	faults                   int
	signals                  map[string]int
	took, longest            time.Duration
}

func newSummary() *summary { return &summary{signals: map[string]int{}} }

func (s *summary) add(o outcome) {
	s.runs++
	s.items += len(o.plan.items) + o.plan.garbled
	s.violations += len(o.violations)
	s.longest = max(s.longest, o.took)
	if len(o.violations) > 0 {
		s.failed++
	}
	began := map[audit.Key]bool{}
	for i := range o.events {
		switch e := &o.events[i]; e.Kind {
		case audit.Signalled:
			s.signals["SIG"+e.Signal]++
		case audit.RunnerKilled:
			s.signals["runners killed"]++
		case audit.PublisherKilled:
			s.signals["publishers killed"]++
		case audit.FaultBegan:
			s.faults++
		case audit.Modelled:
			if began[e.Item] {
				s.repeated++
			}
			began[e.Item] = true
		}
	}
}

// String is the last line of the program.
func (s *summary) String() string {
	var signals []string
	for _, name := range slices.Sorted(maps.Keys(s.signals)) {
		signals = append(signals, fmt.Sprintf("%d %s", s.signals[name], name))
	}
	return fmt.Sprintf("chaos: %d runs (%d failed) in %.0fs, the longest %.0fs; %d items; %s; %d faults; %d model runs repeated; %d violations",
		s.runs, s.failed, s.took.Seconds(), s.longest.Seconds(), s.items, strings.Join(signals, ", "), s.faults, s.repeated, s.violations)
}
