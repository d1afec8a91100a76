// Package broker is an in-memory message broker with the semantics of Cloud
// Pub/Sub: topics, subscriptions, leases, redelivery and dead letters. It knows
// nothing of gRPC; package pubsub puts the real API on top of it.
//
// # Life of a message
//
// Publish makes one Message record and, in each subscription of the topic, one
// small entry that points at it. An entry is always in exactly one state:
//
//	ready -----assign-----> leased ---ack--------------> acked
//	  ^                       |  \--too many failures--> dead-lettered
//	  |                       |
//	  +--- (back-off) <-------+ nack, or the lease ran out
//
// Any entry older than the subscription's retention is dropped. So for every
// subscription, at any time:
//
//	published = ready + delayed + leased + acked + dead-lettered + dropped
//
// # Cost
//
// Ready entries sit in linked queues, timed entries (leases and back-offs) in
// one heap per subscription, and consumers that have room in another. Publish,
// assign, ack, extend and nack are O(log n) in the number of leases, and do not
// depend on the backlog. Only Seek, Detach and deletion touch every entry.
//
// # Fair sharing
//
// A message goes to the consumer that holds the fewest messages among those
// that have room, so a small backlog spreads over all of them. A redelivery
// goes to another consumer than the last one if another has room.
//
// # Concurrency
//
// One mutex guards the whole broker. Operations are short and come in batches;
// measured, the broker is an order of magnitude faster than the gRPC layer above
// it. With one lock a dead letter moves between subscriptions atomically.
package broker
