package containers_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Google's emulators. This way has never been tried: the machines on which this
// was written can pull no image. It is a plain start of the containers as their
// documentation has it, and may need a correction at the first use.
const (
	officialPubSub  = "gcr.io/google.com/cloudsdktool/google-cloud-cli:546.0.0-emulators"
	officialSpanner = "gcr.io/cloud-spanner-emulator/emulator:1.5.53"
)

const (
	pubsubPort  = "8085"
	spannerPort = "9010"
)

// startCloud starts Pub/Sub and Spanner on the site's network and sets the
// environment in which the other containers find them.
func (s *site) startCloud(t *testing.T) {
	t.Helper()
	var pubsub *testcontainers.DockerContainer
	switch emulators := os.Getenv("SPOTBATCH_TEST_EMULATORS"); emulators {
	case "", "localcloud":
		pubsub = s.run(t, s.images.localcloud, "localcloud",
			testcontainers.WithExposedPorts(pubsubPort+"/tcp"),
			testcontainers.WithWaitStrategy(wait.ForLog("ready\n")))
		s.env["PUBSUB_EMULATOR_HOST"] = "localcloud:" + pubsubPort
		s.env["SPANNER_EMULATOR_HOST"] = "localcloud:" + spannerPort
	case "official":
		pubsub = s.runFree(t, officialPubSub, "pubsub",
			testcontainers.WithExposedPorts(pubsubPort+"/tcp"),
			testcontainers.WithCmd("gcloud", "beta", "emulators", "pubsub", "start", "--project="+project, "--host-port=0.0.0.0:"+pubsubPort),
			testcontainers.WithWaitStrategy(wait.ForLog("Server started")))
		s.runFree(t, officialSpanner, "spanner",
			testcontainers.WithWaitStrategy(wait.ForLog("Cloud Spanner emulator running")))
		s.env["PUBSUB_EMULATOR_HOST"] = "pubsub:" + pubsubPort
		s.env["SPANNER_EMULATOR_HOST"] = "spanner:" + spannerPort
	default:
		t.Fatalf("SPOTBATCH_TEST_EMULATORS=%s: must be localcloud or official", emulators)
	}
	s.showLogs(t, "Pub/Sub", pubsub)
	findHost(t, pubsub)
}

// findHost tells the library when published ports are here. It takes every
// machine with a /.dockerenv for a container beside the engine, and then looks
// for them at the default gateway; an engine that runs inside such a machine
// publishes them on the machine itself.
func findHost(t *testing.T, ctr *testcontainers.DockerContainer) {
	t.Helper()
	const override = "TESTCONTAINERS_HOST_OVERRIDE"
	if os.Getenv(override) != "" {
		return
	}
	port, err := ctr.MappedPort(t.Context(), pubsubPort+"/tcp")
	if err != nil {
		t.Fatalf("find the published port of Pub/Sub: %v", err)
	}
	const here = "127.0.0.1"
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(here, port.Port()))
	if err != nil {
		return // the library's own guess stands
	}
	conn.Close()
	t.Setenv(override, here)
}
