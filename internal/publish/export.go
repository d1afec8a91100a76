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

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// Format of an export.
type Format string

// The formats of an export.
const (
	FormatJSONL   Format = "jsonl"
	FormatCSV     Format = "csv"
	FormatParquet Format = "parquet"
)

// Formats are all formats of an export.
var Formats = []Format{FormatJSONL, FormatCSV, FormatParquet}

// exportColumns are the fields of a row, in their order.
var exportColumns = []string{
	"item_id", "status", "output", "error_class", "error_message", "model_version", "worker", "committed_at",
}

// Selection says which rows are exported, and in which order.
type Selection struct {
	// Status is OK or FAILED; empty means both.
	Status string
	// Order is the dataset whose order the rows have; rows of other items are
	// left out. Nil means the order of the table.
	Order Dataset
}

// rowWriter writes rows in one format. end writes what is left.
type rowWriter interface {
	write(row Row) error
	end() error
}

// Export writes the selected rows of a run to w and returns their number. A
// run that does not exist is ErrNoRun. Memory does not grow with the number of
// rows.
func Export(ctx context.Context, runs Runs, results Results, runID string, selection Selection, format Format, w io.Writer) (int64, error) {
	if _, err := runs.Get(ctx, runID); err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, 256<<10)
	out := newRowWriter(format, buffered)
	var count int64
	err := selection.each(ctx, results, runID, func(row Row) error {
		count++
		return out.write(row)
	})
	if err == nil {
		err = out.end()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return count, fmt.Errorf("export run %s: %w", runID, err)
	}
	return count, nil
}

// each calls visit for each selected row.
func (s Selection) each(ctx context.Context, results Results, runID string, visit func(Row) error) error {
	if s.Order == nil {
		return results.Each(ctx, runID, s.Status, visit)
	}
	return lookUp(ctx, runID, withoutData(s.Order.Survey(ctx)), lookupRows, results.Rows, func(_ dataset.Entry, row Row, found bool) error {
		if !found || s.Status != "" && row.Status != s.Status {
			return nil
		}
		return visit(row)
	})
}

func newRowWriter(format Format, w *bufio.Writer) rowWriter {
	switch format {
	case FormatCSV:
		return newCSVWriter(w)
	case FormatParquet:
		return newParquetWriter(w)
	}
	return newJSONLWriter(w)
}

// jsonlWriter writes the output of an item as it is stored: to decode and
// encode it would change numbers.
type jsonlWriter struct {
	w    *bufio.Writer
	line bytes.Buffer
	text *json.Encoder
}

func newJSONLWriter(w *bufio.Writer) *jsonlWriter {
	j := &jsonlWriter{w: w}
	j.text = json.NewEncoder(&j.line)
	j.text.SetEscapeHTML(false)
	return j
}

func (j *jsonlWriter) write(row Row) error {
	j.line.Reset()
	j.line.WriteString(`{"item_id":`)
	if err := j.string(row.ItemID); err != nil {
		return err
	}
	if err := j.field("status", row.Status); err != nil {
		return err
	}
	j.line.WriteString(`,"output":`)
	if err := writeOutput(&j.line, row.Output); err != nil {
		return fmt.Errorf("output of item %q: %w", row.ItemID, err)
	}
	for _, f := range [][2]string{
		{"error_class", row.ErrorClass},
		{"error_message", row.ErrorMessage},
		{"model_version", row.ModelVersion},
		{"worker", row.Worker},
		{"committed_at", timeText(row.CommittedAt)},
	} {
		if err := j.field(f[0], f[1]); err != nil {
			return err
		}
	}
	j.line.WriteString("}\n")
	_, err := j.w.Write(j.line.Bytes())
	return err
}

func (j *jsonlWriter) end() error { return nil }

// field appends a field; an empty value is null.
func (j *jsonlWriter) field(name, value string) error {
	fmt.Fprintf(&j.line, `,"%s":`, name)
	if value == "" {
		j.line.WriteString("null")
		return nil
	}
	return j.string(value)
}

// string appends value as a JSON string, without the encoder's newline.
func (j *jsonlWriter) string(value string) error {
	if err := j.text.Encode(value); err != nil {
		return err
	}
	j.line.Truncate(j.line.Len() - 1)
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

type csvWriter struct{ out *csv.Writer }

func newCSVWriter(w *bufio.Writer) csvWriter {
	c := csvWriter{csv.NewWriter(w)}
	// The writer keeps its first error and returns it at the end.
	_ = c.out.Write(exportColumns)
	return c
}

func (c csvWriter) write(row Row) error {
	return c.out.Write([]string{
		row.ItemID, row.Status, row.Output, row.ErrorClass, row.ErrorMessage,
		row.ModelVersion, row.Worker, timeText(row.CommittedAt),
	})
}

func (c csvWriter) end() error {
	c.out.Flush()
	return c.out.Error()
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
