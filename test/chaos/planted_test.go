package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "spotbatch-chaos-")
	if err == nil {
		bin = dir
		cmd := exec.Command("go", "build", "-o", dir, "./cmd/worker", "./cmd/publisher", "./test/chaos/runner", "./test/chaos/faulty")
		cmd.Dir = filepath.Join("..", "..")
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("build the programs: %w\n%s", err, out)
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code) //nolint:forbidigo // TestMain is this program's main
}

// quiet is a plan of 200 items with nothing but one SIGTERM in the middle of it,
// and some messages that come again at the end.
func quiet() plan {
	p := plan{seed: 1, workers: 2, batchSize: 4, held: 16, models: 1, sleep: 150 * time.Millisecond, calm: 5 * time.Second, settle: 12 * time.Second}
	for i := range 200 {
		p.items = append(p.items, planted{ID: fmt.Sprintf("i%d", i), N: i})
	}
	p.actions = []action{
		{at: 1300 * time.Millisecond, act: term, worker: 0, pause: 100 * time.Millisecond},
		{at: 4900 * time.Millisecond, act: repeat, items: []int{0, 1, 2, 3}},
	}
	return p
}

// Each bug in a real worker process is caught, by the guarantee that it breaks.
func TestPlantedBugsAreCaught(t *testing.T) {
	t.Parallel()
	wants := map[string]string{
		"none":                "",
		"ack_before_commit":   "G1",
		"ack_instead_of_nack": "G1",
		"ack_dropped":         "G2",
		"failed_over_ok":      "G3",
		"blind":               "G4",
		"nack_forgotten":      "G5",
		"drain_fails":         "G6",
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, fmt.Errorf("%s took longer than 2 minutes", t.Name()))
	defer cancel()
	// All at once, whatever the number of processors: they wait for leases.
	var group sync.WaitGroup
	for bug, want := range wants {
		set := settings{bin: bin, worker: "faulty", out: t.TempDir(), env: []string{"CHAOS_BUG=" + bug}}
		group.Go(func() {
			var o outcome
			var err error
			caught := false
			// On a machine that is busy the signal may meet a worker that holds
			// nothing, and the bug does not show.
			for try := 0; try < 3 && err == nil && !caught; try++ {
				o, err = execute(ctx, set, quiet())
				caught = want == "" || slices.ContainsFunc(o.violations, func(v audit.Violation) bool { return v.Guarantee == want })
			}
			switch {
			case err != nil:
				t.Errorf("%s: %v", bug, err)
			case want == "" && len(o.violations) > 0:
				t.Errorf("%s: a healthy worker was accused: %v", bug, o.violations)
			case want != "" && !caught:
				t.Errorf("%s: no violation of %s was found, but %v", bug, want, o.violations)
			}
		})
	}
	group.Wait()
}

// The plan of a seed is always the same, and stays within what the auditor
// relies on.
func TestPlanDependsOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		p, again := newPlan(seed), newPlan(seed)
		if got, want := fmt.Sprint(again), fmt.Sprint(p); got != want {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
		deaths := 0
		for _, a := range p.actions {
			if a.act == kill || a.act == killRunner {
				deaths++
			}
			if a.act == breakCall {
				if err := a.rule.Validate(); err != nil {
					t.Errorf("seed %d: rule %+v: %v", seed, a.rule, err)
				}
			}
			if a.at < 0 || a.at > p.calm {
				t.Errorf("seed %d: %v is not before the calm at %v", seed, a, p.calm)
			}
		}
		if deaths > maxDeaths {
			t.Errorf("seed %d: %d deaths, want at most %d", seed, deaths, maxDeaths)
		}
	}
}
