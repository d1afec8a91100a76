package rows

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// abortRetryDelay is what an aborted client is told to wait. Here the other commit is over already, so a
// short pause is enough to let the contenders fall out of step.
const abortRetryDelay = 2 * time.Millisecond

// retiredPerChange bounds how many old versions a commit clears away for each row that it changes; more than one,
// so that they do not pile up.
const retiredPerChange = 4

// ReadSpan is a part of a table that a read-write transaction has read.
type ReadSpan struct {
	Table *Table
	Span  Span
}

// Commit is everything that one commit brings.
type Commit struct {
	Mutations []Mutation // applied in order
	// Reads are what the transaction read at timestamp ReadAt. The commit is ABORTED if a later commit changed
	// any of it.
	Reads  []ReadSpan
	ReadAt int64
}

// Committed is what a commit has done.
type Committed struct {
	At        time.Time // whole microseconds, later than that of every commit before
	Mutations int64     // as counted against MaxMutations, entries of indexes included
}

// Commit applies all of the commit or, with an error, nothing of it.
func (db *DB) Commit(c Commit) (Committed, error) {
	now := time.Now()
	for i := range c.Mutations {
		if err := c.Mutations[i].Check(now); err != nil {
			return Committed{}, err
		}
	}
	count, err := checkLimits(c.Mutations)
	if err != nil {
		return Committed{}, err
	}

	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.checkConflicts(c); err != nil {
		return Committed{}, err
	}
	at := db.nextTimestamp()
	changes := changeSet{at: at, schema: db.schema}
	for i := range c.Mutations {
		if err := changes.add(&c.Mutations[i]); err != nil {
			return Committed{}, err
		}
	}
	if count += changes.entries; count > MaxMutations {
		return Committed{}, tooManyMutations(count)
	}
	committed := Committed{At: time.UnixMicro(at).UTC(), Mutations: count}
	if db.observe != nil {
		db.observe(committed.At, c.Mutations)
	}
	db.publish(&changes)
	db.retire(retiredPerChange * len(changes.list))
	return committed, nil
}

// checkLimits counts what needs no look at the rows.
func checkLimits(mutations []Mutation) (count int64, err error) {
	var size int64
	for i := range mutations {
		c, s := mutations[i].weigh()
		count, size = count+c, size+s
	}
	if count > MaxMutations {
		return 0, tooManyMutations(count)
	}
	if size > MaxCommitBytes {
		return 0, status.Errorf(codes.InvalidArgument, "Transaction size exceeded: it writes %d bytes, the limit is %d bytes a commit.", size, MaxCommitBytes)
	}
	return count, nil
}

func tooManyMutations(count int64) error {
	return status.Errorf(codes.InvalidArgument,
		"The transaction contains too many mutations. Insert and update operations count with the multiplicity of the number of columns they affect. "+
			"The total mutation count is %d, the limit is %d. Please reduce the number of writes, or use fewer indexes.", count, MaxMutations)
}

// checkConflicts aborts a commit that rests on what is no longer so: the rows it read, or the schema.
func (db *DB) checkConflicts(c Commit) error {
	for i := range c.Mutations {
		if current, err := db.schema.table(c.Mutations[i].Table.Name); err != nil || current != c.Mutations[i].Table {
			return Aborted("The schema changed during the transaction.")
		}
	}
	for _, read := range c.Reads {
		if current, err := db.schema.table(read.Table.Name); err != nil || current.data != read.Table.data {
			return Aborted("The schema changed during the transaction.")
		}
		if read.Table.data.changedSince(read.Span, c.ReadAt) {
			return Aborted("Transaction was aborted: rows it read in table " + read.Table.Name + " were changed by another commit.")
		}
	}
	return nil
}

// Aborted is the error that makes a client run its transaction again.
func Aborted(message string) error {
	st := status.New(codes.Aborted, message)
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(abortRetryDelay)}); err == nil {
		st = detailed
	}
	return st.Err()
}

// nextTimestamp returns a timestamp later than all that were handed out.
func (db *DB) nextTimestamp() int64 {
	for {
		last := db.last.Load()
		next := max(last+1, time.Now().UnixMicro())
		if db.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// publish makes the changes visible. db.mu is held.
func (db *DB) publish(changes *changeSet) {
	for _, change := range changes.list {
		v := &version{at: changes.at, live: change.row != nil}
		if v.live {
			v.row = encodeRow(change.row)
		} else if change.table.data.latest(change.key) == nil {
			continue // deletes a row that was not there
		}
		if change.table.data.put(change.key, v) != nil {
			db.retired = append(db.retired, superseded{data: change.table.data, key: change.key, by: v})
		}
	}
}

// retire forgets up to n versions that have become unreadable. db.mu is held.
func (db *DB) retire(n int) {
	readable := time.Now().Add(-versionRetention).UnixMicro()
	for range n {
		if len(db.retired) == 0 || db.retired[0].by.at >= readable {
			return
		}
		db.retired[0].forget()
		db.retired[0] = superseded{} // append moves the tail to a new array in time
		db.retired = db.retired[1:]
	}
}
