package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// result is how one test ended.
type result struct {
	action  string // pass, fail, skip; empty if it did not end
	elapsed float64
	output  []string
}

// readResults reads what `go test -json` prints and returns the results by the
// name of the test, subtests included.
func readResults(r io.Reader) (map[string]*result, error) {
	results := map[string]*result{}
	for decoder := json.NewDecoder(r); ; {
		var event struct {
			Action, Test, Output string
			Elapsed              float64
		}
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return results, nil
		case err != nil:
			return nil, fmt.Errorf("read the output of go test: %w", err)
		}
		if event.Test == "" {
			continue
		}
		test := results[event.Test]
		if test == nil {
			test = &result{}
			results[event.Test] = test
		}
		switch event.Action {
		case "pass", "fail", "skip":
			test.action, test.elapsed = event.Action, event.Elapsed
		case "output":
			test.output = append(test.output, event.Output)
		}
	}
}

// parseKnown reads lines of the form "test: reason". Empty lines and those that
// begin with # count for nothing.
func parseKnown(text string) (map[string]string, error) {
	known := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		test, reason, ok := strings.Cut(line, ": ")
		if !ok || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("known.txt: %q: want a test, a colon and the reason", line)
		}
		known[test] = reason
	}
	return known, nil
}

// report prints each test and the totals, and returns an error that names the
// tests which did not end as they must. Every test must pass, or be known not to.
func report(out io.Writer, results map[string]*result, known map[string]string) error {
	var wrong []error
	totals := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		test := results[name]
		action := test.action
		if action == "" {
			action = "unfinished"
		}
		totals[action]++
		reason, listed := known[name]
		fmt.Fprintf(out, "%-10s %6.1fs  %s\n", strings.ToUpper(action), test.elapsed, name)
		switch {
		case listed && action == "pass":
			wrong = append(wrong, fmt.Errorf("%s passes: remove it from known.txt", name))
		case listed:
			fmt.Fprintf(out, "%20sknown: %s\n", "", reason)
		case action != "pass":
			wrong = append(wrong, fmt.Errorf("%s: %s", name, action))
			fmt.Fprint(out, strings.Join(test.output, ""))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if results[name] == nil {
			wrong = append(wrong, fmt.Errorf("%s did not run: remove it from known.txt", name))
		}
	}
	if len(results) == 0 {
		wrong = append(wrong, errors.New("no test ran"))
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped, %d unfinished; %d known not to pass\n",
		totals["pass"], totals["fail"], totals["skip"], totals["unfinished"], len(known))
	return errors.Join(wrong...)
}
