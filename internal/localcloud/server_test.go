package localcloud_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/storage"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, localcloudtest.IgnoreClients()...)
}

func TestOfficialClientsReachAllThreeServices(t *testing.T) {
	server := localcloudtest.Start(t)
	ctx := t.Context()

	pubsub, err := gcppubsub.NewClient(ctx, localcloudtest.Project, localcloudtest.PubSubOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer pubsub.Close()
	topic := "projects/" + localcloudtest.Project + "/topics/items"
	if _, err := pubsub.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatalf("create topic: %v", err)
	}
	publisher := pubsub.Publisher(topic)
	defer publisher.Stop()
	if _, err := publisher.Publish(ctx, &gcppubsub.Message{Data: []byte("x")}).Get(ctx); err != nil {
		t.Errorf("publish: %v", err)
	}

	spanner := openSpanner(t, server)
	if err := putRun(t, spanner); err != nil {
		t.Errorf("commit: %v", err)
	}

	client, err := storage.NewClient(ctx, localcloudtest.StorageOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Bucket("data").Create(ctx, localcloudtest.Project, nil); err != nil {
		t.Errorf("create bucket: %v", err)
	}
}

// The clients find all three by the environment alone, with no option that is ours.
func TestEnvPointsTheClientsHere(t *testing.T) {
	server := localcloudtest.Start(t)
	name := localcloudtest.Database(t, server)
	for _, variable := range server.Env() {
		key, value, _ := strings.Cut(variable, "=")
		t.Setenv(key, value)
	}
	ctx := t.Context()
	spanner, err := gcp.NewClient(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer spanner.Close()
	if err := putRun(t, spanner); err != nil {
		t.Errorf("commit: %v", err)
	}
	pubsub, err := gcppubsub.NewClient(ctx, localcloudtest.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer pubsub.Close()
	if _, err := pubsub.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/demo/topics/items"}); err != nil {
		t.Errorf("create topic: %v", err)
	}
	client, err := storage.NewClient(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Bucket("data").Create(ctx, localcloudtest.Project, nil); err != nil {
		t.Errorf("create bucket: %v", err)
	}
}

func openSpanner(t *testing.T, server *localcloud.Server) *gcp.Client {
	t.Helper()
	client, err := gcp.NewClientWithConfig(t.Context(), localcloudtest.Database(t, server),
		gcp.ClientConfig{DisableNativeMetrics: true}, localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func putRun(t *testing.T, client *gcp.Client) error {
	t.Helper()
	_, err := client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Runs",
		[]string{"RunId", "State", "Published", "CreatedAt", "UpdatedAt"},
		[]any{"r", "PUBLISHED", 1, time.Now(), gcp.CommitTimestamp})}, gcp.ApplyAtLeastOnce())
	return err
}

// A commit whose reply is lost has taken place: the client cannot tell, and an insert that is done again
// meets its own row.
func TestLostReplyAfterTheEffect(t *testing.T) {
	server := localcloudtest.Start(t)
	client := openSpanner(t, server)
	server.Faults().Add(fault.Rule{Method: "Commit", When: fault.After, Code: codes.DeadlineExceeded, Count: 1})
	if got := gcp.ErrCode(putRun(t, client)); got != codes.DeadlineExceeded {
		t.Errorf("commit with a lost reply = %v, want DeadlineExceeded", got)
	}
	if got := gcp.ErrCode(putRun(t, client)); got != codes.AlreadyExists {
		t.Errorf("the same insert again = %v, want AlreadyExists", got)
	}
}

// seen keeps what it is told, in order.
type seen struct {
	mu    sync.Mutex
	steps []string
}

func (s *seen) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

func (s *seen) Record(e broker.Event) { s.add(e.Kind.String()) }

func (s *seen) commit(_ time.Time, mutations []rows.Mutation) {
	for _, m := range mutations {
		for _, row := range m.Rows {
			s.add(fmt.Sprintf("commit %s %v", m.Table.Name, row[0]))
		}
	}
}

// Observers see everything once and in order, the commit whose reply is lost included, and beside the history.
func TestObserversSeeCommitsAndMessages(t *testing.T) {
	for _, adminAddr := range []string{"", "127.0.0.1:0"} {
		var got seen
		server, err := localcloud.Start(t.Context(), localcloud.Config{
			PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", AdminAddr: adminAddr, Messages: &got, Commits: got.commit,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		client := openSpanner(t, server)
		server.Faults().Add(fault.Rule{Method: "Commit", When: fault.After, Code: codes.DeadlineExceeded, Count: 1})
		if got := gcp.ErrCode(putRun(t, client)); got != codes.DeadlineExceeded {
			t.Errorf("commit with a lost reply = %v, want DeadlineExceeded", got)
		}
		if got := gcp.ErrCode(putRun(t, client)); got != codes.AlreadyExists {
			t.Errorf("the same insert again = %v, want AlreadyExists", got)
		}
		b := server.Broker()
		if err := errors.Join(b.CreateTopic(broker.TopicConfig{Name: "t"}), b.CreateSubscription(broker.SubscriptionConfig{Name: "s", Topic: "t"})); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish("t", []*broker.Message{{Data: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"commit Runs r", "published"}, got.steps); diff != "" {
			t.Errorf("admin %q: steps (-want +got):\n%s", adminAddr, diff)
		}
	}
}

func TestTakenPortNamesServiceAndAddress(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server, err := localcloud.Start(t.Context(), localcloud.Config{PubSubAddr: "127.0.0.1:0", SpannerAddr: taken.Addr().String()})
	if err == nil {
		server.Close()
		t.Fatal("Start took an address that is in use")
	}
	listenErr, ok := errors.AsType[*localcloud.ListenError](err)
	if !ok || listenErr.Service != localcloud.Spanner || listenErr.Addr != taken.Addr().String() || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v, want a ListenError for spanner at %s", err, taken.Addr())
	}
}

// A call that hangs in a black hole does not hold up the end, and its caller learns of it.
func TestCloseDoesNotWaitForHangingCalls(t *testing.T) {
	server := localcloudtest.Start(t)
	client := openSpanner(t, server)
	server.Faults().Add(fault.Rule{Method: "Commit", BlackHole: true, Count: 1})
	failed := make(chan error, 1)
	go func() { failed <- putRun(t, client) }()
	for len(server.Faults().Rules()) > 0 { // until the call has fallen in
		runtime.Gosched()
	}
	start := time.Now()
	server.Close()
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	client.Close() // ends the client's own attempts to connect again
	if err := <-failed; err == nil {
		t.Error("the commit into the black hole succeeded")
	}
}

func TestEndOfContextStopsTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server, err := localcloud.Start(ctx, localcloud.Config{PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", GCSAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := server.Wait(); err != nil {
		t.Errorf("Wait = %v", err)
	}
	server.Close()
}
