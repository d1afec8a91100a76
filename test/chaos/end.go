package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// askPublisher runs the commands by which a user learns of the end.
func (r *run) askPublisher(ctx context.Context) (end audit.End, err error) {
	end = audit.End{Run: mainRun, Exported: map[audit.Key]audit.Row{}}
	s, err := r.cluster.Status(ctx, mainRun)
	if err != nil {
		return end, err
	}
	end.Status = audit.Status{
		State: s.State, Published: s.Published, OK: s.OK, Failed: s.Failed, Outstanding: s.Outstanding, Complete: s.Complete,
	}
	verify, err := r.cluster.Publisher(ctx, "verify", "--run", mainRun, r.dataset())
	if err != nil {
		return end, err
	}
	end.VerifyCode, end.VerifyText = verify.Code, string(verify.Stdout)+string(verify.Stderr)
	exported, err := r.cluster.MustPublisher(ctx, "export", "--run", mainRun, "-o", "jsonl")
	if err != nil {
		return end, err
	}
	return end, readExport(exported, end.Exported)
}

// readExport reads what `publisher export -o jsonl` printed.
func readExport(text []byte, into map[audit.Key]audit.Row) error {
	for line := range bytes.Lines(text) {
		var row struct {
			ItemID     string          `json:"item_id"`
			Status     string          `json:"status"`
			Output     json.RawMessage `json:"output"`
			ErrorClass string          `json:"error_class"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("read exported line %q: %w", line, err)
		}
		output := string(row.Output)
		if output == "null" {
			output = ""
		}
		into[audit.Key{Run: mainRun, Item: row.ItemID}] = audit.Row{Status: row.Status, Output: output, Class: row.ErrorClass}
	}
	return nil
}
