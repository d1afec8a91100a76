// Package spanner serves Cloud Spanner's gRPC APIs (data, instance admin, database admin, operations) from
// memory, so that the official clients work against it unchanged.
//
// The service keeps instances, databases, sessions and transactions by name and translates the protocol. Rows
// and schemas live behind the engine interface, which package rows implements; package query runs SQL over it.
package spanner
