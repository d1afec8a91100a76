// Package dataset reads what the user has, and says what its items are: the
// rows of CSV, TSV, JSON Lines, Parquet and plain text, or the files below a
// directory or a bucket prefix. docs/datasets.md says it to users.
//
//	arguments -> sources     open.go, local.go, bucket.go, stdin.go, glob.go
//	file -> content          input.go: gzip and zstd by content
//	content -> rows          rows.go, with a rowReader for each format:
//	                         jsonl.go, csv.go and record.go, lines in rows.go,
//	                         parquet*.go
//	row -> item              rows.go and hash.go make its ID, spill.go puts
//	                         payloads away that no message carries
//	items -> a checked whole check.go and idset.go: bad rows and duplicates
//
// A dataset is read twice: Check finds everything that is wrong before anything
// is published, and Items or ItemsAfter give the items. Every entry carries the
// Position after which reading can go on in another process.
//
// A bad row is a *BadRow and never the end: rows read are items, rejected or
// skipped. What makes it impossible to tell where the next row begins, such as
// a compressed file that is cut or a quote that is never closed, is an error
// whatever Options allow. Memory does not grow with the number of items or the
// size of files.
package dataset
