// Package publish turns a dataset into the messages of a run, and answers what
// became of it.
//
// A dataset is read twice. The first time everything is checked, so that a bad
// row or an ID that occurs twice is found before anything was sent. The second
// time each item is published, and counted when Pub/Sub has confirmed it.
//
// Row of the run in Spanner, and what starting again does:
//
//	no row                publish from the start
//	PUBLISHING            an earlier publish did not end: publish from the
//	                      start; workers skip what is stored already
//	PUBLISHED, CANCELLED  refused
package publish
