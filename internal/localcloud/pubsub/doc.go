// Package pubsub speaks the gRPC API google.pubsub.v1 (Publisher and Subscriber)
// on top of package broker, so that official clients in any language work
// against it unchanged.
//
// It enforces the service's limits and answers with the service's codes. What it
// does not do, it refuses with UNIMPLEMENTED and the name of the thing: push,
// BigQuery, Bigtable and Cloud Storage subscriptions, transforms, snapshots,
// schemas, ingestion, keys and storage policies. Two things are accepted and have
// no effect, because their effect takes longer than a process like this lives or
// cannot be seen: an expiration policy (idle subscriptions never expire) and labels.
//
// # Exactly-once subscriptions
//
// Every subscription here delivers a message to one client at a time and never
// after its ack. What enable_exactly_once_delivery adds is the answer: an ack or
// a changed deadline that does nothing fails with the ErrorInfo that the official
// clients read, and streams get confirmations. An ack that is repeated fails too,
// also if the first one took place and only its answer was lost.
//
// # Leases
//
// A lease begins when a message is put on a stream. When a stream ends, what was
// put on it stays leased until it is acked, nacked or runs out, as in the
// service: nobody can tell what the client has read. What a stream had not yet
// been given goes to others at once.
package pubsub
