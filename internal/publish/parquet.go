package publish

import (
	"bufio"
	"time"

	"github.com/parquet-go/parquet-go"
)

// A row group is what a Parquet file keeps in memory until it is written.
const (
	groupRows  = 50_000
	groupBytes = 16 << 20
)

// parquetRow is a row of the file. Output is the JSON text as it is stored.
type parquetRow struct {
	ItemID       string    `parquet:"item_id"`
	Status       string    `parquet:"status,dict"`
	Output       *string   `parquet:"output,optional"`
	ErrorClass   *string   `parquet:"error_class,optional,dict"`
	ErrorMessage *string   `parquet:"error_message,optional"`
	ModelVersion string    `parquet:"model_version,dict"`
	Worker       string    `parquet:"worker,dict"`
	CommittedAt  time.Time `parquet:"committed_at,timestamp(microsecond)"`
}

type parquetWriter struct {
	out         *parquet.GenericWriter[parquetRow]
	rows, bytes int
}

func newParquetWriter(w *bufio.Writer) *parquetWriter {
	return &parquetWriter{out: parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&parquet.Zstd))}
}

func (p *parquetWriter) write(row Row) error {
	_, err := p.out.Write([]parquetRow{{
		ItemID: row.ItemID, Status: row.Status, Output: optional(row.Output),
		ErrorClass: optional(row.ErrorClass), ErrorMessage: optional(row.ErrorMessage),
		ModelVersion: row.ModelVersion, Worker: row.Worker, CommittedAt: row.CommittedAt.UTC(),
	}})
	if err != nil {
		return err
	}
	p.rows++
	p.bytes += len(row.ItemID) + len(row.Output) + len(row.ErrorMessage)
	if p.rows < groupRows && p.bytes < groupBytes {
		return nil
	}
	p.rows, p.bytes = 0, 0
	return p.out.Flush()
}

func (p *parquetWriter) end() error { return p.out.Close() }

// optional makes an empty text null.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
