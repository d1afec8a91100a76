package publish

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Format of an export.
type Format string

// The formats of an export.
const (
	FormatJSONL Format = "jsonl"
	FormatCSV   Format = "csv"
)

// exportColumns are the fields of a row, in their order.
var exportColumns = []string{
	"item_id", "status", "output", "error_class", "error_message", "model_version", "worker", "committed_at",
}

// Export writes the rows of a run to w, of one status unless status is empty,
// and returns their number. A run that does not exist is ErrNoRun.
func Export(ctx context.Context, runs Runs, results Results, runID, status string, format Format, w io.Writer) (int64, error) {
	if _, err := runs.Get(ctx, runID); err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, 256<<10)
	write, end := jsonlWriter(buffered), func() error { return nil }
	if format == FormatCSV {
		write, end = csvWriter(buffered)
	}
	var count int64
	err := results.Each(ctx, runID, status, func(row Row) error {
		count++
		return write(row)
	})
	if err == nil {
		err = end()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return count, fmt.Errorf("export run %s: %w", runID, err)
	}
	return count, nil
}

// jsonlWriter writes the output of an item as it is stored: to decode and
// encode it would change numbers.
func jsonlWriter(w *bufio.Writer) func(Row) error {
	var line bytes.Buffer
	text := json.NewEncoder(&line)
	text.SetEscapeHTML(false)
	field := func(name, value string) error {
		fmt.Fprintf(&line, `,"%s":`, name)
		if value == "" {
			line.WriteString("null")
			return nil
		}
		return encode(text, &line, value)
	}
	return func(row Row) error {
		line.Reset()
		line.WriteString(`{"item_id":`)
		if err := encode(text, &line, row.ItemID); err != nil {
			return err
		}
		if err := field("status", row.Status); err != nil {
			return err
		}
		line.WriteString(`,"output":`)
		if err := writeOutput(&line, row.Output); err != nil {
			return fmt.Errorf("output of item %q: %w", row.ItemID, err)
		}
		for _, f := range [][2]string{
			{"error_class", row.ErrorClass},
			{"error_message", row.ErrorMessage},
			{"model_version", row.ModelVersion},
			{"worker", row.Worker},
			{"committed_at", timeText(row.CommittedAt)},
		} {
			if err := field(f[0], f[1]); err != nil {
				return err
			}
		}
		line.WriteString("}\n")
		_, err := w.Write(line.Bytes())
		return err
	}
}

// encode appends value as a JSON string, without the encoder's newline.
func encode(text *json.Encoder, line *bytes.Buffer, value string) error {
	if err := text.Encode(value); err != nil {
		return err
	}
	line.Truncate(line.Len() - 1)
	return nil
}

func writeOutput(line *bytes.Buffer, output string) error {
	switch {
	case output == "":
		line.WriteString("null")
	case bytes.ContainsAny([]byte(output), "\r\n"):
		// A document over several lines would break the one line of its row.
		return json.Compact(line, []byte(output))
	default:
		line.WriteString(output)
	}
	return nil
}

func csvWriter(w *bufio.Writer) (write func(Row) error, end func() error) {
	out := csv.NewWriter(w)
	// The writer keeps its first error and returns it at the end.
	_ = out.Write(exportColumns)
	write = func(row Row) error {
		return out.Write([]string{
			row.ItemID, row.Status, row.Output, row.ErrorClass, row.ErrorMessage,
			row.ModelVersion, row.Worker, timeText(row.CommittedAt),
		})
	}
	end = func() error {
		out.Flush()
		return out.Error()
	}
	return write, end
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
