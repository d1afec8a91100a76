package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/test/cluster"
)

const (
	project  = "demo"
	database = "projects/demo/instances/spotbatch/databases/spotbatch"
	runID    = "bench"
)

// What the cloud takes for an answer.
const (
	pubsubDelay = 10 * time.Millisecond
	readDelay   = 8 * time.Millisecond
	commitDelay = 15 * time.Millisecond
)

// delays says the same to people.
var delays = []string{
	fmt.Sprintf("Pub/Sub: a round trip takes %s more: a TCP proxy holds back every byte for half of that, in each direction, streams included, and does not limit the bandwidth", pubsubDelay),
	fmt.Sprintf("Spanner: localcloud waits %s before each read or query and %s before each commit, side by side for calls that are under way at once", readDelay, commitDelay),
}

// site is a localcloud of its own for one measurement, so that none leaves
// memory or rows to the next.
type site struct {
	cloud *cluster.Cluster
	// dir holds logs and goes with the site.
	dir   string
	proxy *proxy // nil: not delayed
	// pubsub, spanner and admin are the addresses without delay.
	pubsub, spanner, admin string
}

// with calls measure with a new site.
func (b *bench) with(ctx context.Context, delayed bool, measure func(*site) error) (err error) {
	s := &site{}
	if s.dir, err = os.MkdirTemp("", "bench-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.cloud, err = cluster.Start(ctx, cluster.Options{Bin: b.bin, Dir: s.dir}); err != nil {
		return err
	}
	defer s.cloud.Close()
	for _, entry := range s.cloud.Env() {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "PUBSUB_EMULATOR_HOST":
			s.pubsub = value
		case "SPANNER_EMULATOR_HOST":
			s.spanner = value
		case "LOCALCLOUD_ADMIN_HOST":
			s.admin = value
		}
	}
	nothing := func(publish.Step) {}
	if err := sink.Setup(ctx, database, true, nothing, direct(s.spanner)...); err != nil {
		return err
	}
	if delayed {
		if err := s.delay(ctx); err != nil {
			return err
		}
		defer s.proxy.close()
	}
	return measure(s)
}

// direct are the options of a client without delay.
func direct(addr string) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// delay makes the site answer like the cloud.
func (s *site) delay(ctx context.Context) (err error) {
	for method, d := range map[string]time.Duration{
		"Read": readDelay, "StreamingRead": readDelay, "ExecuteStreamingSql": readDelay, "BeginTransaction": readDelay,
		"Commit": commitDelay,
	} {
		rule, err := json.Marshal(admin.Fault{Service: "Spanner", Method: method, Delay: d.String()})
		if err != nil {
			return err
		}
		// Struck is the server's own.
		rule = bytes.Replace(rule, []byte(`,"struck":0`), nil, 1)
		if err := call(ctx, http.MethodPost, "http://"+s.admin+"/faults", rule, nil); err != nil {
			return err
		}
	}
	s.proxy, err = startProxy(ctx, s.pubsub, pubsubDelay/2)
	return err
}

// call makes a call of localcloud's own API and decodes the answer into it,
// unless that is nil.
func call(ctx context.Context, method, address string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		var refusal struct{ Error string }
		_ = json.NewDecoder(response.Body).Decode(&refusal) // the status says enough
		return fmt.Errorf("%s %s: %s: %s", method, address, response.Status, refusal.Error)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// queue is one topic with its subscription.
type queue struct {
	*site
	names config.PubSub
}

// queue sets up a topic and what belongs to it, as the publisher does.
func (s *site) queue(ctx context.Context, name string) (q queue, err error) {
	q = queue{site: s, names: config.PubSub{Topic: name, Subscription: name + "-workers", DeadLetterTopic: name + "-dead"}}
	client, err := publish.Connect(ctx, project, false, direct(s.pubsub)...)
	if err != nil {
		return q, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return q, client.Setup(ctx, q.names, config.Default().Pull.Lease, func(publish.Step) {})
}

// itemID is the ID of an item of a queue, and payloadOf what it carries.
func (q queue) itemID(n int) string { return fmt.Sprintf("%s-%07d", q.names.Topic, n) }

func payloadOf(n int) []byte {
	return fmt.Appendf(nil, `{"id":%d,"text":%q}`, n, strings.Repeat("x", 80))
}

// publish publishes n items.
func (q queue) publish(ctx context.Context, n int) (err error) {
	client, err := publish.Connect(ctx, project, false, direct(q.pubsub)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	limits := config.Default().Publish
	topic := client.Topic(q.names.Topic, limits)
	sent := make(chan publish.Confirmation, limits.MaxOutstanding)
	var confirming errgroup.Group
	confirming.Go(func() error {
		var errs error
		for confirmation := range sent {
			errs = errors.Join(errs, confirmation.Wait(ctx))
		}
		return errs
	})
	for i := range n {
		sent <- topic.Publish(ctx, item.Item{
			Key: item.Key{RunID: runID, ItemID: q.itemID(i)}, ContentType: item.ContentTypeJSON, Data: payloadOf(i),
		})
	}
	close(sent)
	return confirming.Wait()
}

// env is where a process of the queue finds everything, delays included.
func (q queue) env() []string {
	pubsub := q.pubsub
	if q.proxy != nil {
		pubsub = q.proxy.addr()
	}
	return []string{
		"PUBSUB_EMULATOR_HOST=" + pubsub, "SPANNER_EMULATOR_HOST=" + q.spanner,
		"SPOTBATCH_PROJECT=" + project, "SPOTBATCH_SPANNER_DATABASE=" + database,
		"SPOTBATCH_PUBSUB_TOPIC=" + q.names.Topic, "SPOTBATCH_PUBSUB_SUBSCRIPTION=" + q.names.Subscription,
		"SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC=" + q.names.DeadLetterTopic,
		"SPOTBATCH_TELEMETRY_METRICS_ADDR=127.0.0.1:0",
	}
}

// counts is where the queue's messages are, and as of when.
type counts struct {
	admin.Subscription
	at time.Time
}

// counts asks the server.
func (q queue) counts(ctx context.Context) (counts, error) {
	state, err := q.state(ctx, "")
	if err != nil {
		return counts{}, err
	}
	return counts{state.Subscriptions[0], state.At}, nil
}

// history asks the server what happened to an item.
func (q queue) history(ctx context.Context, itemID string) ([]admin.MessageEvent, error) {
	state, err := q.state(ctx, itemID)
	if err != nil {
		return nil, err
	}
	if state.Item == nil || len(state.Item.Messages) != 1 {
		return nil, fmt.Errorf("the server knows no single message of item %s", itemID)
	}
	return state.Item.Messages[0].Subscriptions[0].Events, nil
}

func (q queue) state(ctx context.Context, itemID string) (state admin.State, err error) {
	query := url.Values{"subscription": {"projects/" + project + "/subscriptions/" + q.names.Subscription}}
	if itemID != "" {
		query.Set("item_id", itemID)
	}
	return state, call(ctx, http.MethodGet, "http://"+q.admin+"/state?"+query.Encode(), nil, &state)
}
