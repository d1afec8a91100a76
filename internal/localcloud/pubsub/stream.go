package pubsub

import (
	"errors"
	"io"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// keepAlive is how often a quiet stream gets an empty response, so that clients
// and proxies see that it lives.
const keepAlive = 30 * time.Second

// StreamingPull serves one stream: this goroutine sends, a second one receives.
func (s *subscriber) StreamingPull(stream pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return invalid("the stream ended before its first request")
		}
		return err
	}
	cfg, err := checkFirst(first)
	if err != nil {
		return err
	}
	c, err := s.broker.Attach(first.GetSubscription(), cfg)
	if err != nil {
		return toStatus(err)
	}
	defer c.Close()

	// The receiver cannot be waited for: its Recv returns only once this method
	// has returned. It touches nothing but the broker and its own channels, and
	// ended makes it stop there.
	in := &receiver{
		s: s, stream: stream, c: c, sub: first.GetSubscription(),
		pings: make(chan struct{}, 1), done: make(chan error, 1), ended: make(chan struct{}),
	}
	defer close(in.ended)
	if err := in.apply(first); err != nil {
		return err
	}
	go in.run()
	return s.send(stream, c, in)
}

// send passes deliveries on until the stream ends.
func (s *subscriber) send(stream pubsubpb.Subscriber_StreamingPullServer, c *broker.Consumer, in *receiver) error {
	// Clients learn the properties of the subscription from the first response.
	if err := stream.Send(response(nil)); err != nil {
		return err
	}
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	var batch []broker.Delivery
	for {
		select {
		case <-c.Wake():
			var err error
			if batch, err = c.Take(batch[:0], responseMessages, responseBytes); err != nil {
				return toStatus(err)
			}
			if len(batch) == 0 {
				continue
			}
			if err := stream.Send(response(s.received(batch, s.showsAttempt(in.sub)))); err != nil {
				return err
			}
			clear(batch) // an idle stream must not keep messages in memory
		case <-in.pings:
			if err := stream.Send(response(nil)); err != nil {
				return err
			}
		case <-quiet.C:
			if err := stream.Send(response(nil)); err != nil {
				return err
			}
		case err := <-in.done:
			return err
		case <-stream.Context().Done():
			return toStatus(stream.Context().Err())
		case <-s.stop:
			return errStopping
		}
	}
}

func response(msgs []*pubsubpb.ReceivedMessage) *pubsubpb.StreamingPullResponse {
	return &pubsubpb.StreamingPullResponse{
		ReceivedMessages:       msgs,
		SubscriptionProperties: &pubsubpb.StreamingPullResponse_SubscriptionProperties{},
	}
}

// checkFirst checks the request that opens a stream.
func checkFirst(req *pubsubpb.StreamingPullRequest) (broker.ConsumerConfig, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return broker.ConsumerConfig{}, err
	}
	if err := checkAckDeadline("stream_ack_deadline_seconds", req.GetStreamAckDeadlineSeconds()); err != nil {
		return broker.ConsumerConfig{}, err
	}
	return broker.ConsumerConfig{
		Name:        req.GetClientId(),
		MaxMessages: int(max(req.GetMaxOutstandingMessages(), 0)),
		MaxBytes:    int(max(req.GetMaxOutstandingBytes(), 0)),
		AckDeadline: time.Duration(req.GetStreamAckDeadlineSeconds()) * time.Second,
	}, nil
}

// receiver reads the requests of a stream.
type receiver struct {
	s      *subscriber
	stream pubsubpb.Subscriber_StreamingPullServer
	c      *broker.Consumer
	sub    string
	pings  chan struct{} // the client wants to hear something
	done   chan error    // why the stream ends; nil when the client half-closed it
	ended  chan struct{} // the stream has ended
}

func (r *receiver) run() {
	for {
		req, err := r.stream.Recv()
		select {
		case <-r.ended:
			return
		default:
		}
		if errors.Is(err, io.EOF) {
			r.done <- nil
			return
		}
		if err == nil {
			err = r.next(req)
		}
		if err != nil {
			r.done <- err
			return
		}
	}
}

// next handles a request after the first.
func (r *receiver) next(req *pubsubpb.StreamingPullRequest) error {
	switch {
	case req.GetSubscription() != "":
		return invalid("subscription may be set in the first request of a stream only")
	case req.GetMaxOutstandingMessages() != 0 || req.GetMaxOutstandingBytes() != 0:
		return invalid("flow control may be set in the first request of a stream only")
	case req.GetProtocolVersion() != 0:
		return invalid("protocol_version may be set in the first request of a stream only")
	}
	if seconds := req.GetStreamAckDeadlineSeconds(); seconds != 0 {
		if err := checkAckDeadline("stream_ack_deadline_seconds", seconds); err != nil {
			return err
		}
		r.c.SetAckDeadline(time.Duration(seconds) * time.Second)
	}
	if len(req.GetAckIds()) == 0 && len(req.GetModifyDeadlineAckIds()) == 0 {
		// Only a ping. A client that gets no answer takes the stream for dead.
		select {
		case r.pings <- struct{}{}:
		default:
		}
	}
	return r.apply(req)
}

// apply carries out the acks and deadlines of a request.
func (r *receiver) apply(req *pubsubpb.StreamingPullRequest) error {
	acks, err := parseAckIDs(req.GetAckIds())
	if err != nil {
		return err
	}
	mods, err := parseAckIDs(req.GetModifyDeadlineAckIds())
	if err != nil {
		return err
	}
	seconds := req.GetModifyDeadlineSeconds()
	if len(mods) != len(seconds) {
		return invalid("modify_deadline_ack_ids has %d elements and modify_deadline_seconds %d: want as many", len(mods), len(seconds))
	}
	for _, n := range seconds {
		if err := checkModifiedDeadline(n); err != nil {
			return err
		}
	}
	if _, err := r.s.broker.Ack(r.sub, acks); err != nil {
		return toStatus(err)
	}
	for i, id := range mods {
		if err := r.s.modify(r.sub, []broker.AckID{id}, seconds[i]); err != nil {
			return toStatus(err)
		}
	}
	return nil
}
