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
		pings: make(chan struct{}, 1), confirmations: make(chan *pubsubpb.StreamingPullResponse, 1),
		done: make(chan error, 1), ended: make(chan struct{}),
	}
	defer close(in.ended)
	if err := in.apply(first); err != nil {
		return err
	}
	go in.run()
	return (&sender{stream: stream, c: c}).run(in, s.stop)
}

// sender writes the responses of a stream. It belongs to one goroutine.
type sender struct {
	stream pubsubpb.Subscriber_StreamingPullServer
	c      *broker.Consumer
	told   broker.Properties // what the client has been told last
	batch  []broker.Delivery
}

// run passes deliveries on until the stream ends.
func (o *sender) run(in *receiver, stop <-chan struct{}) error {
	// Clients learn the properties of the subscription from the first response.
	if err := o.send(&pubsubpb.StreamingPullResponse{}); err != nil {
		return err
	}
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for {
		var err error
		select {
		case <-o.c.Wake():
			err = o.deliver()
		case <-in.pings:
			err = o.send(&pubsubpb.StreamingPullResponse{})
		case r := <-in.confirmations:
			err = o.send(r)
		case <-quiet.C:
			err = o.send(&pubsubpb.StreamingPullResponse{})
		case err := <-in.done:
			return err
		case <-o.stream.Context().Done():
			return toStatus(o.stream.Context().Err())
		case <-stop:
			return errStopping
		}
		if err != nil {
			return err
		}
	}
}

// deliver sends what the consumer has got, or properties that have changed.
func (o *sender) deliver() error {
	var err error
	if o.batch, err = o.c.Take(o.batch[:0], responseMessages, responseBytes); err != nil {
		return toStatus(err)
	}
	p := o.c.Properties()
	if len(o.batch) == 0 && p == o.told {
		return nil
	}
	err = o.send(&pubsubpb.StreamingPullResponse{ReceivedMessages: received(o.batch, p.Attempts)})
	clear(o.batch) // an idle stream must not keep messages in memory
	return err
}

func (o *sender) send(r *pubsubpb.StreamingPullResponse) error {
	o.told = o.c.Properties()
	r.SubscriptionProperties = &pubsubpb.StreamingPullResponse_SubscriptionProperties{
		ExactlyOnceDeliveryEnabled: o.told.ExactlyOnce,
		MessageOrderingEnabled:     o.told.Ordered,
	}
	return o.stream.Send(r)
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
	// confirmations are for the sender. It holds up the receiver when a client
	// sends acks faster than it reads their results.
	confirmations chan *pubsubpb.StreamingPullResponse
	done          chan error    // why the stream ends; nil when the client half-closed it
	ended         chan struct{} // the stream has ended
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

// apply carries out the acks and deadlines of a request. In an exactly-once
// subscription it has the outcome confirmed, in the others a malformed ack ID ends
// the stream.
func (r *receiver) apply(req *pubsubpb.StreamingPullRequest) error {
	mods, seconds := req.GetModifyDeadlineAckIds(), req.GetModifyDeadlineSeconds()
	if len(mods) != len(seconds) {
		return invalid("modify_deadline_ack_ids has %d elements and modify_deadline_seconds %d: want as many", len(mods), len(seconds))
	}
	for _, n := range seconds {
		if err := checkModifiedDeadline(n); err != nil {
			return err
		}
	}
	if r.c.Properties().ExactlyOnce {
		return r.applyExactly(req)
	}
	// All are checked before any has an effect.
	for _, texts := range [][]string{req.GetAckIds(), mods} {
		if _, err := parseAckIDs(texts); err != nil {
			return err
		}
	}
	if err := r.s.ack(r.sub, req.GetAckIds()); err != nil {
		return err
	}
	return eachDeadline(mods, seconds, func(texts []string, n int32) error { return r.s.modify(r.sub, texts, n) })
}

func (r *receiver) applyExactly(req *pubsubpb.StreamingPullRequest) error {
	var answer pubsubpb.StreamingPullResponse
	if len(req.GetAckIds()) > 0 {
		acked, err := r.s.ackExactly(r.sub, req.GetAckIds())
		if err != nil {
			return err
		}
		answer.AcknowledgeConfirmation = acked.ackConfirmation()
	}
	var modified ackResult
	err := eachDeadline(req.GetModifyDeadlineAckIds(), req.GetModifyDeadlineSeconds(), func(texts []string, n int32) error {
		part, err := r.s.modifyExactly(r.sub, texts, n)
		modified.add(part)
		return err
	})
	if err != nil {
		return err
	}
	if len(req.GetModifyDeadlineAckIds()) > 0 {
		answer.ModifyAckDeadlineConfirmation = modified.modifyConfirmation()
	}
	if answer.GetAcknowledgeConfirmation() == nil && answer.GetModifyAckDeadlineConfirmation() == nil {
		return nil
	}
	select {
	case r.confirmations <- &answer:
	case <-r.ended:
	}
	return nil
}

// eachDeadline calls do for each run of ack IDs with the same deadline, so that
// nacks which came together are carried out together.
func eachDeadline(texts []string, seconds []int32, do func(texts []string, seconds int32) error) error {
	for len(texts) > 0 {
		n := 1
		for n < len(texts) && seconds[n] == seconds[0] {
			n++
		}
		if err := do(texts[:n], seconds[0]); err != nil {
			return err
		}
		texts, seconds = texts[n:], seconds[n:]
	}
	return nil
}
