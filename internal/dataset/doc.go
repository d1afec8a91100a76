// Package dataset reads what the user has, and says what its items are: the
// rows of JSON Lines and CSV files, or the files below a directory or a bucket
// prefix.
//
//   - x.jsonl, x.ndjson, x.json: an item a line, its payload the bytes of the
//     line. Blank lines are passed over.
//   - x.csv: an item a row after the header, its payload a JSON object with
//     the columns in the header's order, all values texts. Line ends inside
//     quotes become \n.
//   - a directory, gs://bucket or gs://bucket/prefix: an item a file, its
//     payload the file's bytes. Names that begin with a dot, and the objects
//     that mark folders, are passed over. A link to a file is read as a file;
//     a link to a directory is refused, since to follow it might never end
//     and to pass it over would lose items in silence.
//
// Reading stops at the first thing that is wrong, and the error names file and
// line. Memory does not grow with the number of items.
package dataset
