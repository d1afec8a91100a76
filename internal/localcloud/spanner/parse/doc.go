// Package parse reads the statements that clients send as text: SELECT of one table, and the data manipulation
// of one table.
//
// The parser that comes with the client library is kept for DDL and for its expression types, but its own
// reading of expressions does not follow the precedence of GoogleSQL (a - b + c, NOT a AND b), which would make
// wrong answers of right queries. What GoogleSQL has and this package has not is UNIMPLEMENTED, with its name;
// what no GoogleSQL is, is INVALID_ARGUMENT, with its place.
package parse
