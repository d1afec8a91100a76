package broker

import "errors"

// The errors that callers tell apart. Those about a topic or a subscription come
// in a ResourceError.
var (
	ErrTopicNotFound        = errors.New("topic not found")
	ErrSubscriptionNotFound = errors.New("subscription not found")
	ErrExists               = errors.New("already exists")
	ErrDetached             = errors.New("subscription is detached from its topic")
	ErrClosed               = errors.New("broker is closed")
)

// ResourceError says which topic or subscription an error is about.
type ResourceError struct {
	Name string // in full
	Err  error  // one of the above
}

// Error returns the kind of error and the name.
func (e *ResourceError) Error() string { return e.Err.Error() + ": " + e.Name }

// Unwrap returns the kind of error.
func (e *ResourceError) Unwrap() error { return e.Err }
