package publish_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, append(localcloudtest.IgnoreClients(),
		// Each Receive of the Pub/Sub client leaves this behind.
		goleak.IgnoreTopFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"))...)
}
