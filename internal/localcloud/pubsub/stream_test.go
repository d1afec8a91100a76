package pubsub_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is a bare StreamingPull.
type stream struct {
	pubsubpb.Subscriber_StreamingPullClient
	cancel context.CancelFunc
	got    chan *pubsubpb.ReceivedMessage
	empty  chan *pubsubpb.StreamingPullResponse // responses without messages
	err    chan error                           // why it ended
}

func (b *bed) stream(t *testing.T, change func(*pubsubpb.StreamingPullRequest)) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	sp, err := b.sub.StreamingPull(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{
		sp, cancel, make(chan *pubsubpb.ReceivedMessage, 10_000),
		make(chan *pubsubpb.StreamingPullResponse, 10_000), make(chan error, 1),
	}
	first := &pubsubpb.StreamingPullRequest{Subscription: sub, StreamAckDeadlineSeconds: 10}
	if change != nil {
		change(first)
	}
	s.send(t, first)
	go func() {
		for {
			resp, err := sp.Recv()
			if err != nil {
				s.err <- err
				return
			}
			if len(resp.GetReceivedMessages()) == 0 {
				s.empty <- resp
			}
			for _, m := range resp.GetReceivedMessages() {
				s.got <- m
			}
		}
	}()
	return s
}

func (s *stream) send(t *testing.T, req *pubsubpb.StreamingPullRequest) {
	t.Helper()
	if err := s.Send(req); err != nil {
		t.Fatal(err)
	}
}

// next waits for n messages.
func (s *stream) next(t *testing.T, n int) []*pubsubpb.ReceivedMessage {
	t.Helper()
	var all []*pubsubpb.ReceivedMessage
	timeout := time.After(10 * time.Second)
	for len(all) < n {
		select {
		case m := <-s.got:
			all = append(all, m)
		case <-timeout:
			t.Fatalf("got %d messages within 10 s, want %d", len(all), n)
		}
	}
	return all
}

// end waits for the end of the stream and returns its code.
func (s *stream) end(t *testing.T) codes.Code {
	t.Helper()
	select {
	case err := <-s.err:
		if errors.Is(err, io.EOF) {
			return codes.OK
		}
		return status.Code(err)
	case <-time.After(10 * time.Second):
		t.Fatal("the stream did not end within 10 s")
		return 0
	}
}

func ackIDs(ms []*pubsubpb.ReceivedMessage) []string {
	var ids []string
	for _, m := range ms {
		ids = append(ids, m.GetAckId())
	}
	return ids
}

// The server never has more outstanding than the client asked for; acks, nacks
// and expired leases make room.
func TestFlowControlMessages(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	b.publish(t, 20)
	s := b.stream(t, func(r *pubsubpb.StreamingPullRequest) { r.MaxOutstandingMessages = 5 })
	held := s.next(t, 5)
	b.holds(t, 5)

	s.send(t, &pubsubpb.StreamingPullRequest{AckIds: ackIDs(held[:2])})
	s.next(t, 2)
	b.holds(t, 5)

	s.send(t, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: ackIDs(held[2:3]), ModifyDeadlineSeconds: []int32{0}})
	s.next(t, 1)
	b.holds(t, 5)

	b.clock.Advance(10 * time.Second)
	s.next(t, 5)
	b.holds(t, 5)
	if c := b.counts(t); c.Acked != 2 {
		t.Errorf("acked: got %d, want 2", c.Acked)
	}
}

func TestFlowControlBytes(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	req := &pubsubpb.PublishRequest{Topic: topic}
	for range 10 {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: make([]byte, 1000)})
	}
	if _, err := b.pub.Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	s := b.stream(t, func(r *pubsubpb.StreamingPullRequest) { r.MaxOutstandingBytes = 2500 })
	held := s.next(t, 3) // the third crosses the bound, as the API allows
	b.holds(t, 3)
	s.send(t, &pubsubpb.StreamingPullRequest{AckIds: ackIDs(held[:1])})
	s.next(t, 1)
	b.holds(t, 3)
}

// holds insists that n messages are leased. The broker hands out messages before
// it answers anybody, so one too many would show at once.
func (b *bed) holds(t *testing.T, n int) {
	t.Helper()
	if got := b.counts(t).Leased; got != n {
		t.Errorf("leased: got %d, want %d", got, n)
	}
}

// The client takes a stream for dead when its pings are not answered.
func TestPingIsAnswered(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	s := b.stream(t, nil)
	for range 3 {
		resp := <-s.empty // the first one comes unasked
		if resp.GetSubscriptionProperties() == nil {
			t.Error("a response without the properties of the subscription")
		}
		s.send(t, &pubsubpb.StreamingPullRequest{})
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := s.end(t); got != codes.OK {
		t.Errorf("after a half-close: got %v, want OK", got)
	}
}

func TestBadStreamRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first func(*pubsubpb.StreamingPullRequest)
		later *pubsubpb.StreamingPullRequest
		want  codes.Code
	}{
		{"unknown subscription", func(r *pubsubpb.StreamingPullRequest) { r.Subscription += "-not" }, nil, codes.NotFound},
		{"no subscription", func(r *pubsubpb.StreamingPullRequest) { r.Subscription = "" }, nil, codes.InvalidArgument},
		{"no deadline", func(r *pubsubpb.StreamingPullRequest) { r.StreamAckDeadlineSeconds = 0 }, nil, codes.InvalidArgument},
		{"deadline too short", func(r *pubsubpb.StreamingPullRequest) { r.StreamAckDeadlineSeconds = 9 }, nil, codes.InvalidArgument},
		{"deadline too long", func(r *pubsubpb.StreamingPullRequest) { r.StreamAckDeadlineSeconds = 601 }, nil, codes.InvalidArgument},
		{"subscription twice", nil, &pubsubpb.StreamingPullRequest{Subscription: sub}, codes.InvalidArgument},
		{"flow control later", nil, &pubsubpb.StreamingPullRequest{MaxOutstandingMessages: 1}, codes.InvalidArgument},
		{"malformed ack ID", nil, &pubsubpb.StreamingPullRequest{AckIds: []string{"nonsense"}}, codes.InvalidArgument},
		{"lists differ", nil, &pubsubpb.StreamingPullRequest{ModifyDeadlineSeconds: []int32{1}}, codes.InvalidArgument},
		{"negative deadline", nil, &pubsubpb.StreamingPullRequest{
			ModifyDeadlineAckIds: []string{"lc-1"}, ModifyDeadlineSeconds: []int32{-1},
		}, codes.InvalidArgument},
		{"new deadline too long", nil, &pubsubpb.StreamingPullRequest{StreamAckDeadlineSeconds: 601}, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.create(t, nil)
			s := b.stream(t, tt.first)
			if tt.later != nil {
				s.send(t, tt.later)
			}
			if got := s.end(t); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			eventually(t, "the consumer is gone", func() bool { return b.counts(t).Consumers == 0 })
		})
	}
}

// An unknown or old ack ID is no error: at-least-once delivery.
func TestStaleAckOnStreamIsIgnored(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	s := b.stream(t, nil)
	s.send(t, &pubsubpb.StreamingPullRequest{AckIds: []string{"lc-zzz"}})
	b.publish(t, 1)
	s.next(t, 1)
}

func TestStreamsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*bed) error
		want codes.Code
	}{
		{"service closed", func(b *bed) error { b.service.Close(); b.server.GracefulStop(); return nil }, codes.Unavailable},
		{"server stopped", func(b *bed) error { b.server.Stop(); return nil }, codes.Unavailable},
		{"broker closed", func(b *bed) error { b.broker.Close(); return nil }, codes.Unavailable},
		{"subscription deleted", func(b *bed) error {
			_, err := b.sub.DeleteSubscription(context.Background(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub})
			return err
		}, codes.NotFound},
		{"subscription detached", func(b *bed) error {
			_, err := b.pub.DetachSubscription(context.Background(), &pubsubpb.DetachSubscriptionRequest{Subscription: sub})
			return err
		}, codes.FailedPrecondition},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			b.create(t, nil)
			s := b.stream(t, nil)
			<-s.empty
			start := time.Now()
			if err := tt.do(b); err != nil {
				t.Fatal(err)
			}
			if got := s.end(t); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("the stream took %v to end, want under 1 s", d)
			}
		})
	}
}

func TestPull(t *testing.T) {
	b := setup(t)
	b.create(t, nil)
	pull := func(n int32, atOnce bool) []*pubsubpb.ReceivedMessage {
		t.Helper()
		resp, err := b.sub.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: n, ReturnImmediately: atOnce}) //nolint:staticcheck // still served
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetReceivedMessages()
	}
	if got := pull(1, true); len(got) != 0 {
		t.Errorf("an empty subscription gave %d messages", len(got))
	}
	waiting := make(chan int, 1)
	go func() { waiting <- len(pull(10, false)) }()
	eventually(t, "the pull waits", func() bool { return b.counts(t).Consumers == 1 })
	b.publish(t, 1)
	if got := <-waiting; got != 1 {
		t.Errorf("the waiting pull got %d messages, want 1", got)
	}
	b.publish(t, 7)
	if got := pull(5, false); len(got) != 5 {
		t.Errorf("got %d messages, want 5", len(got))
	}
	if _, err := b.sub.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ackIDs(pull(5, false))}); err != nil {
		t.Fatal(err)
	}
	if c := b.counts(t); c.Acked != 2 || c.Leased != 6 {
		t.Errorf("got %+v, want 2 acked and 6 leased", c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.sub.Pull(ctx, &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 1}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}
