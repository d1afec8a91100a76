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
// # Ordering
//
// A subscription with ordering also keeps a lane for each ordering key; lane.go
// says what holds there. Only the first undelivered message of a lane is in a
// queue, so that dispatch never meets one that it must not deliver yet.
//
// # Retention
//
// A subscription keeps what is not acked, and with RetainAcked what is; a topic
// with a retention keeps references to its last messages. Seek brings back what
// either of them has. A filter decides when a message is published: what it
// rejects counts as acked and is never kept.
//
// # Cost
//
// Ready entries sit in linked queues, timed entries (leases and back-offs) in
// one heap per subscription, and consumers that have room in another. Publish,
// assign, ack, extend and nack are O(log n) in the number of leases, and do not
// depend on the backlog. A nack of a message with an ordering key also touches
// the later ones of the key that are out. Only Seek, Detach and deletion touch
// every entry.
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
