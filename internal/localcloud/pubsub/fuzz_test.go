package pubsub_test

import (
	"context"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/pubsub"
)

// registry collects what Register registers, to call it without a network.
type registry struct {
	descs map[string]*grpc.ServiceDesc
	impls map[string]any
}

func (r *registry) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.descs[d.ServiceName], r.impls[d.ServiceName] = d, impl
}

// FuzzUnary sends arbitrary bytes to every unary method. Whatever they say, the
// answer is a result or one of the service's codes, and never a panic.
func FuzzUnary(f *testing.F) {
	f.Add(uint8(0), marshal(f, &pubsubpb.Topic{Name: topic, Labels: map[string]string{"a": "b"}}))
	f.Add(uint8(3), marshal(f, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}))
	f.Add(uint8(10), marshal(f, &pubsubpb.Subscription{Name: sub, Topic: topic, AckDeadlineSeconds: 10}))
	f.Add(uint8(14), marshal(f, &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: []string{"lc-1", "x"}}))
	f.Fuzz(func(t *testing.T, method uint8, body []byte) {
		b := broker.New(nil, nil)
		defer b.Close()
		s := pubsub.New(b)
		s.Close() // so that a pull does not wait
		r := &registry{map[string]*grpc.ServiceDesc{}, map[string]any{}}
		s.Register(r)
		call(t, r, "CreateTopic", marshal(t, &pubsubpb.Topic{Name: topic}))
		call(t, r, "CreateSubscription", marshal(t, &pubsubpb.Subscription{Name: sub, Topic: topic}))
		call(t, r, methodNames[int(method)%len(methodNames)], body)
	})
}

var methodNames = []string{
	"CreateTopic", "UpdateTopic", "GetTopic", "Publish", "ListTopics", "ListTopicSubscriptions", "DeleteTopic",
	"DetachSubscription", "ListTopicSnapshots", "GetSubscription", "CreateSubscription", "UpdateSubscription",
	"ListSubscriptions", "DeleteSubscription", "Acknowledge", "ModifyAckDeadline", "Pull", "Seek",
	"ModifyPushConfig", "CreateSnapshot",
}

func call(t *testing.T, r *registry, method string, body []byte) {
	t.Helper()
	decode := func(req any) error {
		if err := proto.Unmarshal(body, req.(proto.Message)); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return nil
	}
	for name, desc := range r.descs {
		for _, m := range desc.Methods {
			if m.MethodName != method {
				continue
			}
			resp, err := m.Handler(r.impls[name], context.Background(), decode, nil)
			switch code := status.Code(err); code {
			case codes.Internal, codes.Unknown:
				t.Errorf("%s: %v", method, err)
			case codes.OK:
				if _, err := proto.Marshal(resp.(proto.Message)); err != nil {
					t.Errorf("%s: the response cannot be sent: %v", method, err)
				}
			default:
			}
		}
	}
}

func marshal(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}
