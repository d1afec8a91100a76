package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// services are the full names of the gRPC services behind the calls.
const (
	publisherService  = "google.pubsub.v1.Publisher"
	subscriberService = "google.pubsub.v1.Subscriber"
	spannerService    = "google.spanner.v1.Spanner"
)

// call is one that may break.
type call struct {
	service, method string
	stream          bool
}

var pubsubFaults = []call{
	{service: publisherService, method: "Publish"},
	{service: subscriberService, method: "Acknowledge"},
	{service: subscriberService, method: "Acknowledge"},
	{service: subscriberService, method: "ModifyAckDeadline"},
	{service: subscriberService, method: "ModifyAckDeadline"},
	{service: subscriberService, method: "StreamingPull", stream: true},
	{service: subscriberService, method: "StreamingPull", stream: true},
}

var spannerFaults = []call{
	{service: spannerService, method: "Commit"},
	{service: spannerService, method: "Commit"},
	{service: spannerService, method: "Commit"},
	{service: spannerService, method: "StreamingRead", stream: true},
	{service: spannerService, method: "StreamingRead", stream: true},
	{service: spannerService, method: "ExecuteStreamingSql", stream: true},
	{service: spannerService, method: "BeginTransaction"},
	{service: spannerService, method: "CreateSession"},
}

// retryable are the codes of a service that is not well: what clients must get
// over.
var retryable = []codes.Code{codes.Unavailable, codes.Unavailable, codes.Internal, codes.DeadlineExceeded, codes.ResourceExhausted}

// fault breaks one of the calls for up to 2s: it fails or is slow before or
// after its effect, never answers, or its streams are closed.
func (d dice) fault(calls []call) action {
	c := calls[d.IntN(len(calls))]
	if d.chance(0.15) {
		return d.outage(c.service)
	}
	r := fault.Rule{Service: c.service, Method: c.method, Seed: d.Uint64()}
	if d.chance(0.5) {
		r.When = fault.After
	}
	if d.chance(0.6) {
		r.Count = d.between(1, 4)
	} else {
		r.Probability = 0.1 + 0.9*d.Float64()
	}
	switch kind := d.IntN(10); {
	// Nobody gives up on a session before some minutes are over.
	case kind == 0 && c.method != "CreateSession":
		r.BlackHole = true
		r.Count, r.Probability = d.between(1, 2), 0
	case kind <= 3:
		r.Delay = d.duration(50*time.Millisecond, 1500*time.Millisecond)
	case kind <= 6 && c.stream:
		r.Close, r.When = true, fault.Before
		r.Code = retryable[d.IntN(len(retryable))]
	case kind <= 5 && c.method == "Commit":
		r.Code = codes.Aborted
	default:
		r.Code = retryable[d.IntN(len(retryable))]
	}
	return action{act: breakCall, rule: r, pause: d.duration(100*time.Millisecond, 2*time.Second)}
}

// outage takes a whole service away, for longer than clients try on.
func (d dice) outage(service string) action {
	r := fault.Rule{Service: service, Code: codes.Unavailable}
	if d.chance(0.3) {
		r.Code, r.BlackHole = codes.OK, true
	}
	return action{act: breakCall, rule: r, pause: d.duration(1500*time.Millisecond, 5*time.Second)}
}

// isStream reports whether a rule strikes streams.
func isStream(r fault.Rule) bool {
	return r.Method == "" || slices.ContainsFunc(slices.Concat(pubsubFaults, spannerFaults), func(c call) bool { return c.stream && c.method == r.Method })
}

// struckService is whom a rule strikes, as the auditor calls it.
func struckService(r fault.Rule) string {
	if r.Service == spannerService {
		return audit.Spanner
	}
	return audit.PubSub
}

// describeRule is a rule in a few words.
func describeRule(r fault.Rule) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	add("%s", cmp.Or(r.Method, "all of "+r.Service))
	switch {
	case r.BlackHole:
		add("black hole")
	case r.Close:
		add("closes streams")
	}
	if r.Delay > 0 {
		add("delay %v", r.Delay)
	}
	if r.Code != codes.OK {
		add("%v", r.Code)
	}
	if r.When == fault.After {
		add("after the effect")
	}
	if r.Count > 0 {
		add("%d times", r.Count)
	}
	if r.Probability > 0 {
		add("with probability %.2f", r.Probability)
	}
	return strings.Join(words, ", ")
}
