// Package sink keeps results and runs in Spanner. It is the only package of
// the product that knows Spanner; the worker and the publisher see it through
// the interfaces that they declare.
//
// A row goes to the table in one of two ways. An OK row is written blind, in a
// single-use commit that may be applied more than once: one round trip, and a
// replay writes the same row again. A FAILED row is written in a read-write
// transaction that leaves an OK row alone.
//
// A commit whose outcome is unknown is done again, for as long as the caller's
// context lasts, since doing it twice is the same as doing it once. A commit
// that is refused for its content is cut in two until the bad row stands
// alone, so that its neighbours are stored.
package sink
