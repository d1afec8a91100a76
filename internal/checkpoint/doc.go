// Package checkpoint keeps where a long job stands, so that it can be gone on
// with after it was killed at any moment.
//
// A state is a row of numbered snapshots in a directory or below a prefix of a
// bucket. A snapshot is written once under a number of its own and is never
// changed: no write can spoil the one before, and a bucket, which takes one
// change of an object a second, is never asked for more. Each carries its
// length and a checksum. The newest valid one wins; a torn one is passed over.
// Of the old ones all but one are swept away after each save.
//
// Two processes at one state notice each other. On one machine the directory
// is locked for the second. In a bucket, and wherever the lock does nothing,
// the number decides: it can be created once, and who finds the next number
// taken has been overtaken and must stop.
package checkpoint
