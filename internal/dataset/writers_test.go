package dataset

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew; compare them with what the writers say of themselves")

// TestParquetOfEveryWriter reads files of DuckDB (C++), arrow-rs (Rust),
// arrow-go, parquetjs and hyparquet-writer (JavaScript), which were written
// with every compression, both versions of pages and all encodings. Files of
// one table have one golden file, whose name theirs begins with.
// testdata/parquet/README.md says how they were made.
func TestParquetOfEveryWriter(t *testing.T) {
	files, err := filepath.Glob("testdata/parquet/*.parquet")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := mustOpen(t, Options{}, file)
			var got bytes.Buffer
			for e, err := range d.Items(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got.Write(e.Data)
				got.WriteByte('\n')
			}
			golden := strings.TrimSuffix(file, ".parquet") + ".jsonl"
			if _, err := os.Stat(golden); errors.Is(err, fs.ErrNotExist) {
				table, _, _ := strings.Cut(filepath.Base(file), "_")
				golden = filepath.Join(filepath.Dir(file), strings.TrimSuffix(table, ".parquet")+".jsonl")
			}
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}
