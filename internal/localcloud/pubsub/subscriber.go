package pubsub

import (
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
			return &pubsubpb.PullResponse{ReceivedMessages: s.received(got, s.showsAttempt(req.GetSubscription()))}, nil
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
	ids, err := checkAckRequest(req.GetSubscription(), req.GetAckIds())
	if err != nil {
		return nil, err
	}
	if _, err := s.broker.Ack(req.GetSubscription(), ids); err != nil {
		return nil, toStatus(err)
	}
	return &emptypb.Empty{}, nil
}

func (s *subscriber) ModifyAckDeadline(_ context.Context, req *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	ids, err := checkAckRequest(req.GetSubscription(), req.GetAckIds())
	if err != nil {
		return nil, err
	}
	if err := checkModifiedDeadline(req.GetAckDeadlineSeconds()); err != nil {
		return nil, err
	}
	if err := s.modify(req.GetSubscription(), ids, req.GetAckDeadlineSeconds()); err != nil {
		return nil, toStatus(err)
	}
	return &emptypb.Empty{}, nil
}

func (s *subscriber) modify(sub string, ids []broker.AckID, seconds int32) error {
	if seconds == 0 {
		_, err := s.broker.Nack(sub, ids)
		return err
	}
	_, err := s.broker.Extend(sub, ids, time.Duration(seconds)*time.Second)
	return err
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

// showsAttempt reports whether deliveries carry their attempt: the service
// counts for its clients only where there is a dead-letter policy.
func (s *subscriber) showsAttempt(sub string) bool {
	c, err := s.broker.Subscription(sub)
	return err == nil && c.DeadLetter != nil
}

func (s *subscriber) received(ds []broker.Delivery, withAttempt bool) []*pubsubpb.ReceivedMessage {
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

func parseAckIDs(texts []string) ([]broker.AckID, error) {
	ids := make([]broker.AckID, len(texts))
	for i, text := range texts {
		digits, ok := strings.CutPrefix(text, ackIDPrefix)
		n, err := strconv.ParseUint(digits, 36, 64)
		if !ok || err != nil {
			return nil, invalid("malformed ack ID %.40q", text)
		}
		ids[i] = broker.AckID(n)
	}
	return ids, nil
}

func checkAckRequest(sub string, texts []string) ([]broker.AckID, error) {
	if err := checkName(sub, "subscriptions"); err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, invalid("no ack IDs given: want at least 1")
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > maxAckRequestBytes {
		return nil, invalid("the ack IDs have %d bytes, the maximum of a request is %d", size, maxAckRequestBytes)
	}
	return parseAckIDs(texts)
}
