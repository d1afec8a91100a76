package dataset

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The readers must be faster than publishing is: rows of 100 bytes.
func BenchmarkReaders(b *testing.B) {
	const n = 10_000
	var jsonl, csv strings.Builder
	csv.WriteString("id,x\n")
	for i := range n {
		fmt.Fprintf(&jsonl, "{\"id\":%d,\"x\":\"%s\"}\n", i, strings.Repeat("y", 80))
		fmt.Fprintf(&csv, "%d,%s\n", i, strings.Repeat("y", 90))
	}
	for _, format := range []struct {
		name string
		read reader
		text string
	}{{"jsonl", readJSONL, jsonl.String()}, {"csv", readCSV, csv.String()}} {
		b.Run(format.name, func(b *testing.B) {
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				for _, err := range format.read(format.name, bytes.NewReader([]byte(format.text)), Options{IDField: "id"}) {
					if err != nil {
						b.Fatal(err)
					}
					rows++
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
