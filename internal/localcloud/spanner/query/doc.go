// Package query runs SELECT statements over the rows of a local Spanner database, and plans what an INSERT, UPDATE
// or DELETE changes of them.
//
// It covers what people and spotbatch ask of a results table: one table, WHERE, GROUP BY with the usual
// aggregates, HAVING, DISTINCT, ORDER BY, LIMIT and OFFSET, and the common functions of text, numbers, timestamps and
// JSON. A statement is compiled to closures once; conditions on the primary key narrow the scan, and an ORDER BY
// that is the key's own order streams. Anything else is answered with UNIMPLEMENTED and the name of the construct:
// never with a wrong result.
package query
