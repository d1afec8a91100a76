package worker

import (
	"context"
	"errors"
	"fmt"
)

// Class says what kind of failure an error is; it decides what is done about
// it. The zero value is no class at all.
type Class string

// The classes of failure. The table of what is done about each is policy.go.
const (
	// ClassInvalidInput: the payload cannot be decoded or fetched, or does not
	// fit the model's inputs.
	ClassInvalidInput Class = "invalid_input"
	// ClassItemError: the runner says that the item itself is bad.
	ClassItemError Class = "item_error"
	// ClassBatchError: a batch failed and no item was named.
	ClassBatchError Class = "batch_error"
	// ClassOutOfMemory: the batch did not fit the device's memory.
	ClassOutOfMemory Class = "out_of_memory"
	// ClassProtocolError: the runner answered for other items than asked.
	ClassProtocolError Class = "protocol_error"
	// ClassInvalidOutput: the answer cannot be stored.
	ClassInvalidOutput Class = "invalid_output"
	// ClassRunnerCrash: the runner process died.
	ClassRunnerCrash Class = "runner_crash"
	// ClassTransient: the runner is unreachable or overloaded, or timed out.
	ClassTransient Class = "transient"
	// ClassDevice: the device is broken until the process is replaced.
	ClassDevice Class = "device"
	// ClassStore: the store is unavailable.
	ClassStore Class = "store"
)

// ErrRejected is in the chain of an error of Store.Commit when the store
// refuses a row for its content, now and at every later try.
var ErrRejected = errors.New("row refused by the store")

// ErrDevice is in the chain of Run's error when the worker stopped because its
// device is broken.
var ErrDevice = errors.New("device is broken")

// classed is an error with a class.
type classed struct {
	class Class
	err   error
}

func (e *classed) Error() string { return string(e.class) + ": " + e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// Fail gives err a class. A nil err stays nil.
func Fail(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

// Failf is Fail of fmt.Errorf.
func Failf(class Class, format string, args ...any) error {
	return &classed{class: class, err: fmt.Errorf(format, args...)}
}

// ClassOf returns the class of err, or fallback when err has none. A time-out
// without a class is transient: it says nothing about the items.
func ClassOf(err error, fallback Class) Class {
	if c, ok := errors.AsType[*classed](err); ok {
		return c.class
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ClassTransient
	}
	return fallback
}

// Reason returns err's text without the class in front, for people and rows.
func Reason(err error) string {
	if c, ok := errors.AsType[*classed](err); ok {
		return c.err.Error()
	}
	return err.Error()
}
