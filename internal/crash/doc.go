// Package crash names the places on the path of an item where a worker's death
// is tested. In a normal build they cost nothing and do nothing:
//
//	crash.At(crash.AfterCommit)
//
// is then a call of an empty function, which the compiler removes. A program
// built with -tags crashpoints kills itself with SIGKILL, so that nothing deferred
// runs and nothing is flushed, where one variable says; here, at the third pass:
//
//	SPOTBATCH_TEST_CRASH=after_commit:3
//
// docs/design.md says what becomes of the item at each point, and which test
// has seen it.
package crash

// Point is a place where a worker can die.
type Point string

// The points, in the order in which an item passes them. A delivery, a batch or
// a call that passes counts as one.
const (
	// AfterReceive: a delivery has come; nothing is known of its item.
	AfterReceive Point = "after_receive"
	// AfterLookup: a read has shown that an item's result is not stored.
	AfterLookup Point = "after_lookup"
	// BeforeInfer: a batch is complete, and counts as being in the model.
	BeforeInfer Point = "before_infer"
	// AfterInfer: the model has answered; the worker has not looked yet.
	AfterInfer Point = "after_infer"
	// BeforeCommit: results are on their way; nothing of them is sent.
	BeforeCommit Point = "before_commit"
	// AfterCommit: the rows are durable; nobody else in the worker knows yet.
	AfterCommit Point = "after_commit"
	// BeforeAck: acks are decided and gathered; the call is not made.
	BeforeAck Point = "before_ack"
	// AfterAck: the service has confirmed acks.
	AfterAck Point = "after_ack"

	// DuringDrain: the intake is stopped; everything is still held.
	DuringDrain Point = "during_drain"
	// BeforeNack: nacks are gathered; the call is not made.
	BeforeNack Point = "before_nack"
	// AfterNack: the service has confirmed nacks.
	AfterNack Point = "after_nack"
)

// Points returns all of them.
func Points() []Point {
	return []Point{
		AfterReceive, AfterLookup, BeforeInfer, AfterInfer, BeforeCommit, AfterCommit, BeforeAck, AfterAck,
		DuringDrain, BeforeNack, AfterNack,
	}
}
