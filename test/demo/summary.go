package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// What the demo asks for.
const (
	wantItems        = 10_000
	wantAccuracy     = 0.975
	wantDrainSeconds = 10
)

// summary is out/demo/summary.json.
type summary struct {
	Items     int   `json:"items"`
	Published int64 `json:"published"`
	OK        int64 `json:"ok"`
	Failed    int64 `json:"failed"`
	// Missing counts the items of the dataset without a row.
	Missing int `json:"missing"`
	// ModelRuns counts how often an item went into a model; of these,
	// RepeatedModelRuns were not the item's first.
	ModelRuns         int     `json:"model_runs"`
	RepeatedModelRuns int     `json:"repeated_model_runs"`
	Accuracy          float64 `json:"accuracy"`
	// Drained and Killed count workers.
	Drained      int     `json:"drained"`
	Killed       int     `json:"killed"`
	DrainSeconds float64 `json:"drain_seconds"`
	// WallSeconds is the time from the start of the workers to the last
	// result.
	WallSeconds    float64 `json:"wall_seconds"`
	ItemsPerSecond float64 `json:"items_per_second"`

	drainCode int
}

// check reports everything that is not as it must be.
func (s summary) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(s.Items == wantItems, "the dataset has %d items, not %d", s.Items, wantItems)
	want(s.OK == int64(s.Items), "%d of %d items are OK", s.OK, s.Items)
	want(s.Missing == 0, "%d items have no result", s.Missing)
	want(s.Accuracy >= wantAccuracy, "accuracy is %.4f, below %.3f", s.Accuracy, wantAccuracy)
	want(s.Drained == 1 && s.drainCode == 0, "the drained worker exited %d", s.drainCode)
	want(s.DrainSeconds <= wantDrainSeconds, "the drain took %.1f s", s.DrainSeconds)
	return errors.Join(errs...)
}

// readLabels reads a CSV of id,label.
func readLabels(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read labels: %w; `make demo` prepares them", err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read labels %s: %w", path, err)
	}
	labels := make(map[string]string, len(rows))
	for _, row := range rows[min(1, len(rows)):] {
		labels[row[0]] = row[1]
	}
	return labels, nil
}

// collect exports the results and counts what is right, missing and repeated.
func (d *demo) collect(ctx context.Context, labels map[string]string) error {
	exported, err := d.cluster.MustPublisher(ctx, "export", "--run", runID, "-o", "jsonl")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir, "results.jsonl"), exported, 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	seen := make(map[string]bool, len(labels))
	right := 0
	lines := bufio.NewScanner(bytes.NewReader(exported))
	for lines.Scan() {
		var row struct {
			ItemID string `json:"item_id"`
			Output struct {
				Label string `json:"label"`
			} `json:"output"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("read exported row %q: %w", lines.Bytes(), err)
		}
		label, known := labels[row.ItemID]
		if !known || seen[row.ItemID] {
			return fmt.Errorf("exported item %q is unknown or there twice", row.ItemID)
		}
		seen[row.ItemID] = true
		if row.Output.Label == label {
			right++
		}
	}
	d.summary.Missing = len(labels) - len(seen)
	d.summary.Accuracy = float64(right) / float64(len(labels))
	for _, w := range d.workers {
		for _, line := range w.Lines("batch enters the model") {
			items, ok := line["items"].(float64)
			if !ok {
				return fmt.Errorf("log of %s: a line does not say how many items it is about", w.Name)
			}
			d.summary.ModelRuns += int(items)
		}
	}
	d.summary.RepeatedModelRuns = d.summary.ModelRuns - len(seen)
	return lines.Err()
}

// report writes summary.json and prints the table.
func (d *demo) report() error {
	text, err := json.MarshalIndent(d.summary, "", "  ")
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "summary.json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	s := d.summary
	fmt.Fprintln(d.out)
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"items", fmt.Sprint(s.Items)},
		{"published", fmt.Sprint(s.Published)},
		{"ok / failed / missing", fmt.Sprintf("%d / %d / %d", s.OK, s.Failed, s.Missing)},
		{"accuracy", fmt.Sprintf("%.2f %%", 100*s.Accuracy)},
		{"items through the model", fmt.Sprintf("%d, of these repeated %d", s.ModelRuns, s.RepeatedModelRuns)},
		{"workers drained / killed", fmt.Sprintf("%d / %d", s.Drained, s.Killed)},
		{"drain", fmt.Sprintf("%.2f s", s.DrainSeconds)},
		{"time", fmt.Sprintf("%.1f s, %.0f items/s", s.WallSeconds, s.ItemsPerSecond)},
		{"results", filepath.Join(d.dir, "results.jsonl")},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print summary: %w", err)
	}
	return nil
}
