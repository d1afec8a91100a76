// Package publish turns a dataset into the messages of a run, and answers what
// became of it.
//
// A dataset is read twice. The first time everything is checked, so that a bad
// row or an ID that occurs twice is found before anything was sent. The second
// time each item is published, and counted when Pub/Sub has confirmed it.
//
//	ItemsAfter -> limit -> Topic.Publish -> pending -> confirm -> position
//	                       (send)                      (in order)    |
//	                                        Checkpoint, once a second; the run's row, every two
//
// The position is the last entry up to which every one is confirmed. It is kept
// with the identities of the sources and the options that shape the items, so
// that a publish that was killed goes on behind it: at most what was confirmed
// since the last save, and what was on its way, is published twice, and workers
// find those items stored or in work. What starting again does:
//
//	row of the run   checkpoint        then
//	none             any               publish from the start
//	PUBLISHING       of this run       go on behind the position; refuse a dataset that has changed
//	PUBLISHING       none              publish from the start; workers skip what is stored
//	PUBLISHED        of this run       nothing is left to do
//	PUBLISHED        none              refused
//	CANCELLED        any               refused
//
// The row never goes back: of two publishers of one run, each with a checkpoint
// of its own, both publish, and the run is PUBLISHED with each item counted
// once when the first of them is done.
package publish
