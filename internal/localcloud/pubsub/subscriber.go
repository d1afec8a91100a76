package pubsub

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// subscriber serves google.pubsub.v1.Subscriber.
type subscriber struct {
	pubsubpb.UnimplementedSubscriberServer

	broker *broker.Broker
	stop   <-chan struct{}
}

// Bounds of one response. The byte bound is soft: a message of any legal size
// travels, alone if need be.
const (
	responseMessages = 1000
	responseBytes    = 1 << 20
)

// pullWait is how long a Pull waits for a message before it answers with none.
// The service says only that the time is bounded.
const pullWait = 20 * time.Second

func (s *subscriber) Pull(ctx context.Context, req *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	if req.GetMaxMessages() <= 0 {
		return nil, invalid("max_messages is %d: want 1 or more", req.GetMaxMessages())
	}
	limit := min(int(req.GetMaxMessages()), responseMessages)
	// A waiting pull is a consumer with room for one response.
	c, err := s.broker.Attach(req.GetSubscription(), broker.ConsumerConfig{
		Name: "pull", MaxMessages: limit, MaxBytes: responseBytes,
	})
	if err != nil {
		return nil, toStatus(err)
	}
	defer c.Close()

	timeout := time.NewTimer(pullWait)
	defer timeout.Stop()
	for {
		got, err := c.Take(nil, limit, responseBytes)
		if err != nil {
			return nil, toStatus(err)
		}
		if len(got) > 0 || req.GetReturnImmediately() { //nolint:staticcheck // deprecated, but clients still use it
			return &pubsubpb.PullResponse{ReceivedMessages: received(got, c.Properties().Attempts)}, nil
		}
		select {
		case <-c.Wake():
		case <-timeout.C:
			return &pubsubpb.PullResponse{}, nil
		case <-ctx.Done():
			return nil, toStatus(ctx.Err())
		case <-s.stop:
			return nil, errStopping
		}
	}
}

func (s *subscriber) Acknowledge(_ context.Context, req *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	if err := checkAckRequest(req.GetSubscription(), req.GetAckIds()); err != nil {
		return nil, err
	}
	p, err := s.broker.Properties(req.GetSubscription())
	if err != nil {
		return nil, toStatus(err)
	}
	if p.ExactlyOnce {
		r, err := s.ackExactly(req.GetSubscription(), req.GetAckIds())
		return &emptypb.Empty{}, cmp.Or(err, r.err())
	}
	if err := s.ack(req.GetSubscription(), req.GetAckIds()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func (s *subscriber) ModifyAckDeadline(_ context.Context, req *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	if err := checkAckRequest(req.GetSubscription(), req.GetAckIds()); err != nil {
		return nil, err
	}
	if err := checkModifiedDeadline(req.GetAckDeadlineSeconds()); err != nil {
		return nil, err
	}
	p, err := s.broker.Properties(req.GetSubscription())
	if err != nil {
		return nil, toStatus(err)
	}
	if p.ExactlyOnce {
		r, err := s.modifyExactly(req.GetSubscription(), req.GetAckIds(), req.GetAckDeadlineSeconds())
		return &emptypb.Empty{}, cmp.Or(err, r.err())
	}
	if err := s.modify(req.GetSubscription(), req.GetAckIds(), req.GetAckDeadlineSeconds()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// ack settles deliveries. An ack ID that is stale does nothing, and a malformed
// one refuses all.
func (s *subscriber) ack(sub string, texts []string) error {
	ids, err := parseAckIDs(texts)
	if err != nil {
		return err
	}
	_, _, err = s.broker.Ack(sub, ids)
	return toStatus(err)
}

// modify changes deadlines, or nacks with 0 seconds, and treats ack IDs as ack does.
func (s *subscriber) modify(sub string, texts []string, seconds int32) error {
	ids, err := parseAckIDs(texts)
	if err != nil {
		return err
	}
	_, err = s.setDeadline(sub, ids, seconds)
	return toStatus(err)
}

func (s *subscriber) setDeadline(sub string, ids []broker.AckID, seconds int32) (stale []broker.AckID, err error) {
	if seconds == 0 {
		return s.broker.Nack(sub, ids)
	}
	return s.broker.Extend(sub, ids, time.Duration(seconds)*time.Second)
}

// ackExactly settles deliveries of an exactly-once subscription and tells what
// became of each ack ID.
func (s *subscriber) ackExactly(sub string, texts []string) (ackResult, error) {
	p := parse(texts)
	stale, early, err := s.broker.Ack(sub, p.ids)
	if err != nil {
		return ackResult{}, toStatus(err)
	}
	return p.result(stale, early), nil
}

// modifyExactly is to modify what ackExactly is to ack.
func (s *subscriber) modifyExactly(sub string, texts []string, seconds int32) (ackResult, error) {
	p := parse(texts)
	stale, err := s.setDeadline(sub, p.ids, seconds)
	if err != nil {
		return ackResult{}, toStatus(err)
	}
	return p.result(stale, nil), nil
}

func (s *subscriber) Seek(_ context.Context, req *pubsubpb.SeekRequest) (*pubsubpb.SeekResponse, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	if req.GetSnapshot() != "" {
		return nil, unimplemented("seek to a snapshot")
	}
	if err := req.GetTime().CheckValid(); err != nil {
		return nil, invalid("seek needs a valid time: %v", err)
	}
	if err := s.broker.Seek(req.GetSubscription(), req.GetTime().AsTime()); err != nil {
		return nil, toStatus(err)
	}
	return &pubsubpb.SeekResponse{}, nil
}

// received turns deliveries into the API's form. The service counts attempts for
// its clients only where there is a dead-letter policy.
func received(ds []broker.Delivery, withAttempt bool) []*pubsubpb.ReceivedMessage {
	out := make([]*pubsubpb.ReceivedMessage, len(ds))
	for i, d := range ds {
		m := d.Message
		out[i] = &pubsubpb.ReceivedMessage{
			AckId: formatAckID(d.AckID),
			Message: &pubsubpb.PubsubMessage{
				Data:        m.Data,
				Attributes:  m.Attributes,
				MessageId:   messageID(m.ID),
				PublishTime: timestamppb.New(m.PublishTime),
				OrderingKey: m.OrderingKey,
			},
		}
		if withAttempt {
			out[i].DeliveryAttempt = int32(min(d.Attempt, 1<<30))
		}
	}
	return out
}

// ackIDPrefix tells an ack ID of this service from anything else.
const ackIDPrefix = "lc-"

func formatAckID(id broker.AckID) string {
	b := make([]byte, 0, 20)
	b = append(b, ackIDPrefix...)
	return string(strconv.AppendUint(b, uint64(id), 36))
}

func parseAckID(text string) (broker.AckID, bool) {
	digits, ok := strings.CutPrefix(text, ackIDPrefix)
	n, err := strconv.ParseUint(digits, 36, 64)
	return broker.AckID(n), ok && err == nil
}

func parseAckIDs(texts []string) ([]broker.AckID, error) {
	ids := make([]broker.AckID, len(texts))
	for i, text := range texts {
		id, ok := parseAckID(text)
		if !ok {
			return nil, invalid("malformed ack ID %.40q", text)
		}
		ids[i] = id
	}
	return ids, nil
}

func checkAckRequest(sub string, texts []string) error {
	if err := checkName(sub, "subscriptions"); err != nil {
		return err
	}
	if len(texts) == 0 {
		return invalid("no ack IDs given: want at least 1")
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > maxAckRequestBytes {
		return invalid("the ack IDs have %d bytes, the maximum of a request is %d", size, maxAckRequestBytes)
	}
	return nil
}
