package publish_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The clients start it for the process and never stop it.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// Nor this one, which each Receive leaves behind.
		goleak.IgnoreTopFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
	)
}
