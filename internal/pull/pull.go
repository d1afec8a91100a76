// Package pull is the adapter between a Pub/Sub subscription and the worker's
// deliveries. It speaks to the service through the client library's generated
// API, and keeps the leases itself, since they are what spotbatch promises:
//
//	stream.go   one streaming pull, opened again whenever it ends, closed first
//	            of all at the stop
//	lease.go    extends what is held, and says when a lease is lost
//	outbox.go   sends acks and nacks, at once and together, until they arrived
//	failure.go  reads for which of them a call failed
//	receive.go  puts the three together around the worker's handler
//
// docs/adr/0001-settlement.md says why the library's own Receive is not used.
package pull

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	gax "github.com/googleapis/gax-go/v2"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var (
	_ worker.Source      = (*Subscription)(nil)
	_ worker.DeadLetters = (*Subscription)(nil)
	_ worker.Connection  = (*Subscription)(nil)
)

// AttrReason is the attribute of a buried message that says why.
const AttrReason = "spotbatch_reason"

// Limits of Pub/Sub: bytes of an attribute's value, attributes of a message.
const (
	maxReasonBytes = 1024
	maxAttributes  = 100
)

// Subscription is one subscription and the dead-letter topic beside it. Make
// it with Open; it is safe for concurrent use, but only one Receive may run.
type Subscription struct {
	client   *pubsub.Client
	dead     *pubsub.Publisher
	log      *slog.Logger
	tracer   trace.Tracer
	duration metric.Float64Histogram
	cfg      config.Pull
	line     connection

	path     string
	deadPath string
	// clientID is the name, made unique: the service carries the state of a
	// stream over to the next one with the same ID.
	clientID string
}

// Deps are who a Subscription is and where it reports to; all but Name are
// required.
type Deps struct {
	// Name is how the service, and localcloud's page, see the worker that holds
	// a delivery.
	Name string

	Log    *slog.Logger
	Meter  metric.MeterProvider
	Tracer trace.TracerProvider
}

// Open connects to the subscription. The connection is made when it is first
// used. With PUBSUB_EMULATOR_HOST set no credentials are needed. The caller
// closes it.
func Open(ctx context.Context, project string, names config.PubSub, cfg config.Pull,
	deps Deps, opts ...option.ClientOption,
) (*Subscription, error) {
	duration, err := worker.StageDuration(deps.Meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	client, err := pubsub.NewClient(ctx, project, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to Pub/Sub: %w", err)
	}
	dead := client.Publisher(names.DeadLetterTopic)
	dead.PublishSettings.CountThreshold = 1
	return &Subscription{
		client:   client,
		dead:     dead,
		log:      deps.Log,
		tracer:   deps.Tracer.Tracer("github.com/spotbatch/spotbatch/internal/pull"),
		duration: duration,
		cfg:      cfg,
		line:     connection{log: deps.Log},
		path:     fmt.Sprintf("projects/%s/subscriptions/%s", project, names.Subscription),
		deadPath: fmt.Sprintf("projects/%s/topics/%s", project, names.DeadLetterTopic),
		clientID: deps.Name + "/" + rand.Text(),
	}, nil
}

// checkTimeout bounds each call of Check, since the client itself would wait for
// a server that does not answer.
const checkTimeout = 5 * time.Second

// Check asks once whether the subscription and the dead-letter topic exist; what
// does not is worker.ErrPermanent. A missing permission to look is no error:
// pulling needs less. It waits at most 10s.
func (s *Subscription) Check(ctx context.Context) error {
	err := inTime(ctx, func(ctx context.Context) error {
		_, err := s.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: s.path}, ownRetries)
		return err
	})
	if err := missing(err, "pubsub.subscription", s.path); err != nil {
		return err
	}
	err = inTime(ctx, func(ctx context.Context) error {
		_, err := s.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: s.deadPath}, ownRetries)
		return err
	})
	return missing(err, "pubsub.dead_letter_topic", s.deadPath)
}

func inTime(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return call(ctx)
}

func missing(err error, key, path string) error {
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied:
		return nil
	case codes.NotFound:
		return worker.Permanent(fmt.Errorf("%s: %s does not exist; create it with `publisher setup`", key, path))
	case codes.Unauthenticated:
		return fmt.Errorf("look for %s: no valid credentials (%w)", path, err)
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("look for %s: no answer from Pub/Sub; check the network and PUBSUB_EMULATOR_HOST (%w)", path, err)
	default:
		return permanent(fmt.Errorf("look for %s: %w", path, err))
	}
}

// Bury implements worker.DeadLetters: it publishes the message as it came,
// with the reason, and waits for the confirmation.
func (s *Subscription) Bury(ctx context.Context, d *worker.Delivery, reason string) error {
	attrs := make(map[string]string, len(d.Attributes)+1)
	attrs[AttrReason] = cut(reason)
	// A message that is full already loses what does not fit.
	for _, k := range slices.Sorted(maps.Keys(d.Attributes)) {
		if len(attrs) < maxAttributes {
			attrs[k] = d.Attributes[k]
		}
	}
	if _, err := s.dead.Publish(ctx, &pubsub.Message{Data: d.Data, Attributes: attrs}).Get(ctx); err != nil {
		return fmt.Errorf("publish to %s: %w", s.deadPath, err)
	}
	return nil
}

// cut shortens a reason to what an attribute holds, without half a rune.
func cut(reason string) string {
	if len(reason) <= maxReasonBytes {
		return reason
	}
	end := maxReasonBytes
	for end > 0 && !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// Close ends the connection. What Receive settled has been sent already.
func (s *Subscription) Close() error {
	s.dead.Stop()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		return fmt.Errorf("close Pub/Sub client: %w", err)
	}
	return nil
}

// retryable reports whether a call that failed may succeed when it is made
// again. Unknown and Internal are what broken connections often look like.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.DeadlineExceeded,
		codes.ResourceExhausted, codes.Aborted, codes.Canceled:
		return true
	default:
		return false
	}
}

// permanent marks errors that come again at every try: what is named does not
// exist, or cannot. A permission may be on its way, and so may credentials.
func permanent(err error) error {
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.Unimplemented:
		return worker.Permanent(err)
	default:
		return err
	}
}

// ownRetries keeps the client library from making a call again by itself, with
// pauses of up to a minute: who calls knows better when it is too late.
var ownRetries = gax.WithRetry(nil)

const (
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 10 * time.Second
)

// pause waits between tries, longer each time, up to most; 0 means pauseMost.
// The zero value is ready.
type pause struct{ next, most time.Duration }

// wait returns false when ctx is done first.
func (p *pause) wait(ctx context.Context) bool {
	p.next = min(max(2*p.next, pauseFirst), cmp.Or(p.most, pauseMost))
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
