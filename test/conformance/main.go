// Command conformance runs the integration tests that ship inside the official
// Pub/Sub client for Go against localcloud. They were written for the service.
//
// Nothing of the client's module is kept here: it is copied out of the module
// cache into a temporary folder, with the versions that this repository pins. All
// of its integration tests must pass, save those in known.txt, which must not:
// so that list stays true. `make conformance` builds localcloud and calls this.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spotbatch/spotbatch/internal/signals"
	"github.com/spotbatch/spotbatch/test/cluster"
)

// timeout bounds the run; it takes about a minute.
const timeout = 10 * time.Minute

//go:embed known.txt
var knownFailures string

func main() {
	stop, release := signals.Notify(context.Background())
	code := run(stop.Context, os.Args[1:], os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bin := flags.String("bin", "bin", "`folder` with localcloud")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := conform(ctx, *bin, stdout); err != nil {
		fmt.Fprintln(stderr, "conformance:", err)
		return 1
	}
	return 0
}

// conform runs the tests and returns an error if any of them did not end as it must.
func conform(ctx context.Context, bin string, out io.Writer) error {
	known, err := parseKnown(knownFailures)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary folder harms nobody
	cloud, err := cluster.Start(ctx, cluster.Options{Bin: bin, Dir: dir})
	if err != nil {
		return err
	}
	defer cloud.Close()
	addr, err := address(cloud.Env())
	if err != nil {
		return err
	}
	if err := createPublicTopic(ctx, addr); err != nil {
		return err
	}
	module := filepath.Join(dir, "pubsub")
	if err := copyModule(ctx, module, addr); err != nil {
		return err
	}
	credentials := filepath.Join(dir, "credentials.json")
	if err := os.WriteFile(credentials, []byte(fakeCredentials), 0o600); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout", timeout.String(), "-run", "^TestIntegration_", ".")
	cmd.Dir = module
	cmd.Env = append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-mod=mod", // the tests may need more modules than this repository does
		"PUBSUB_EMULATOR_HOST="+addr,
		"GCLOUD_TESTS_GOLANG_PROJECT_ID=conformance",
		"GCLOUD_TESTS_GOLANG_KEY=", "GOOGLE_APPLICATION_CREDENTIALS="+credentials,
	)
	cmd.Stderr = out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	results, err := readResults(events)
	// It also fails when a test does, which the results say better.
	if waited := cmd.Wait(); err == nil && len(results) == 0 {
		err = fmt.Errorf("no test ran: %w", errors.Join(waited, ctx.Err()))
	}
	if err != nil {
		return err
	}
	return report(out, results, known)
}

// fakeCredentials are only looked at, never used: with an emulator the client
// sends none. But the tests skip themselves when they find none at all.
const fakeCredentials = `{"type": "authorized_user", "client_id": "none", "client_secret": "none", "refresh_token": "none"}`

func address(env []string) (string, error) {
	for _, variable := range env {
		if addr, ok := strings.CutPrefix(variable, "PUBSUB_EMULATOR_HOST="); ok {
			return addr, nil
		}
	}
	return "", errors.New("localcloud does not say where its Pub/Sub listens")
}

// publicTopic is one that Google publishes to and everybody may subscribe to.
const publicTopic = "projects/pubsub-public-data/topics/taxirides-realtime"

// createPublicTopic makes the topic that exists in the service before any test.
func createPublicTopic(ctx context.Context, addr string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it has served its purpose
	if _, err := pubsubpb.NewPublisherClient(conn).CreateTopic(ctx, &pubsubpb.Topic{Name: publicTopic}); err != nil {
		return fmt.Errorf("create topic %s: %w", publicTopic, err)
	}
	return nil
}
