// Package rows keeps the rows of local Spanner databases in memory.
//
// A table is a B-tree from the encoded primary key to the versions of a row, newest first. Every commit has
// a timestamp of its own; a read sees, at one timestamp, exactly the commits up to it. So a read never waits
// for a writer, and a read-only transaction is a timestamp and nothing else.
//
// A read-write transaction takes no locks either. It reads at the timestamp at which it began and remembers
// what it read; its commit is refused with ABORTED when another commit has changed any of that meanwhile
// (and the client runs it again). A client that vanishes in the middle of a transaction therefore holds up
// nobody.
//
// Errors carry the gRPC codes of the real service. All types are safe for concurrent use unless they say
// otherwise.
package rows
