package dataset

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, localcloudtest.IgnoreClients()...) }
