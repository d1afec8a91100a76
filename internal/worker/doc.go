// Package worker is the core of spotbatch: it takes deliveries, runs the model
// on their items, stores the results, and settles each delivery once.
//
//	Source --> handle     one goroutine a delivery; blocks until its item is settled
//	             | twin of an item that is here already? share its outcome
//	             v
//	           look up    one strong read for many keys        -> stored: Ack
//	             v
//	           load       fetch the payload, Runner.Prepare    -> bad: FAILED row
//	             v
//	           batch      until full, or max_wait since its first item
//	             v
//	           record     only batches with suspects: their starts (attempts.go)
//	             v
//	           infer      Runner.Run; what a failure means is in policy.go
//	             v
//	           commit     several in flight, never in the way of the next infer
//	             v
//	           settle     Ack, Nack or Abandon; handle returns it to the Source
//
// # The ack rule
//
// settle(Ack) is called in two places only: where a commit returned success
// for the item's result (commit.go), and where a strong read showed the result
// to be stored already (lookup.go). Items of a run that was cancelled are acked
// without a result (lookup.go): nobody wants them any more. Messages for which
// no row can exist are acked once their record on the dead-letter topic is
// durable (handle.go). Everything else gives the delivery back.
//
// # Two contexts
//
// The context given to Run stops the intake. The pipeline itself runs on a
// detached one, which ends when every delivery is settled or at the hard stop
// of the drain, whichever is first. A stage that finds its context done
// returns at once and leaves its items to the drain, which settles them.
//
// The calls of crash.At name the places where a test has the process die; they
// are empty in every other build.
//
// The package knows no cloud library: what it needs is in ports.go.
package worker
