package broker

import "errors"

// The errors that callers tell apart. They come wrapped with the name of the
// topic or subscription.
var (
	ErrTopicNotFound        = errors.New("topic not found")
	ErrSubscriptionNotFound = errors.New("subscription not found")
	ErrExists               = errors.New("already exists")
	ErrDetached             = errors.New("subscription is detached from its topic")
	ErrClosed               = errors.New("broker is closed")
)
