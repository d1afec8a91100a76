package pubsub_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/pubsub"
)

// registry collects what Register registers, to call it without a network.
type registry struct {
	descs map[string]*grpc.ServiceDesc
	impls map[string]any
}

func newRegistry(s *pubsub.Service) *registry {
	r := &registry{map[string]*grpc.ServiceDesc{}, map[string]any{}}
	s.Register(r)
	return r
}

func (r *registry) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.descs[d.ServiceName], r.impls[d.ServiceName] = d, impl
}

// FuzzUnary sends arbitrary bytes to every unary method. Whatever they say, the
// answer is a result or one of the service's codes, and never a panic.
func FuzzUnary(f *testing.F) {
	names := newRegistry(pubsub.New(broker.New(nil, nil))).methods()
	for name, m := range map[string]proto.Message{
		"CreateTopic":        &pubsubpb.Topic{Name: topic + "2", Labels: map[string]string{"a": "b"}, MessageRetentionDuration: durationpb.New(time.Hour)},
		"Publish":            &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x"), OrderingKey: "k"}}},
		"CreateSubscription": &pubsubpb.Subscription{Name: sub + "2", Topic: topic, AckDeadlineSeconds: 10, Filter: `NOT attributes:"a\x41"`, EnableMessageOrdering: true},
		"UpdateSubscription": &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: sub, RetryPolicy: &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(1)}},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"retry_policy.minimum_backoff", "labels", "push_config.attributes.x"}},
		},
		"UpdateTopic":       &pubsubpb.UpdateTopicRequest{Topic: &pubsubpb.Topic{Name: topic}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"message_retention_duration"}}},
		"Acknowledge":       &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: []string{"lc-1", "x"}},
		"ModifyAckDeadline": &pubsubpb.ModifyAckDeadlineRequest{Subscription: sub, AckIds: []string{"lc-1", "x"}},
		"Seek":              &pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Unix(1<<40, 0))}},
		"Pull":              &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 10},
		"ListSubscriptions": &pubsubpb.ListSubscriptionsRequest{Project: "projects/demo", PageSize: -1, PageToken: "x"},
		"DeleteTopic":       &pubsubpb.DeleteTopicRequest{Topic: topic},
		"ModifyPushConfig":  &pubsubpb.ModifyPushConfigRequest{Subscription: sub, PushConfig: &pubsubpb.PushConfig{PushEndpoint: "x"}},
	} {
		f.Add(uint8(slices.Index(names, name)), marshal(f, m))
		f.Add(uint8(slices.Index(names, name)+len(names)), marshal(f, m)) // the other kind of subscription
	}
	f.Fuzz(func(t *testing.T, method uint8, body []byte) {
		b := broker.New(nil, nil)
		defer b.Close()
		s := pubsub.New(b)
		s.Close() // so that a pull does not wait
		r := newRegistry(s)
		call(t, r, "CreateTopic", marshal(t, &pubsubpb.Topic{Name: topic}))
		call(t, r, "CreateSubscription", marshal(t, &pubsubpb.Subscription{Name: sub, Topic: topic, EnableExactlyOnceDelivery: int(method) >= len(names)}))
		call(t, r, "Publish", marshal(t, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}))
		call(t, r, names[int(method)%len(names)], body)
	})
}

// methods returns the names of all unary methods, in order.
func (r *registry) methods() []string {
	var names []string
	for _, desc := range r.descs {
		for _, m := range desc.Methods {
			names = append(names, m.MethodName)
		}
	}
	slices.Sort(names)
	return names
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

// FuzzStream sends arbitrary requests on a streaming pull of each kind of
// subscription. They come as a list of length-prefixed messages.
func FuzzStream(f *testing.F) {
	first := &pubsubpb.StreamingPullRequest{Subscription: sub, StreamAckDeadlineSeconds: 10, MaxOutstandingMessages: 3}
	for kind := range uint8(4) {
		f.Add(kind, requests(f, first))
		f.Add(kind, requests(f, first, &pubsubpb.StreamingPullRequest{AckIds: []string{"lc-1", "lc-3", "lc-3"}}))
		f.Add(kind, requests(f, first, &pubsubpb.StreamingPullRequest{
			AckIds: []string{"x"}, ModifyDeadlineAckIds: []string{"lc-1", "lc-2", "y"}, ModifyDeadlineSeconds: []int32{0, 0, 600},
		}, &pubsubpb.StreamingPullRequest{}))
		f.Add(kind, requests(f, first, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: []string{"lc-2"}, ModifyDeadlineSeconds: []int32{-1}}))
		f.Add(kind, requests(f, first, first))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		b := broker.New(nil, nil)
		defer b.Close()
		s := pubsub.New(b)
		defer s.Close()
		r := newRegistry(s)
		call(t, r, "CreateTopic", marshal(t, &pubsubpb.Topic{Name: topic}))
		call(t, r, "CreateSubscription", marshal(t, &pubsubpb.Subscription{
			Name: sub, Topic: topic, EnableExactlyOnceDelivery: kind%2 == 0, EnableMessageOrdering: kind&2 == 0,
		}))
		call(t, r, "Publish", marshal(t, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{
			{Data: []byte("1"), OrderingKey: "k"}, {Data: []byte("2"), OrderingKey: "k"}, {Data: []byte("3"), OrderingKey: "k"},
		}}))
		const subscriber = "google.pubsub.v1.Subscriber"
		err := r.descs[subscriber].Streams[0].Handler(r.impls[subscriber], &script{t: t, rest: body})
		if code := status.Code(err); code == codes.Internal || code == codes.Unknown {
			t.Errorf("the stream ended with %v", err)
		}
		c, err := b.Counts(sub)
		if err != nil {
			t.Fatal(err)
		}
		if sum := c.Ready + c.Delayed + c.Leased + c.Acked; sum != c.Published {
			t.Errorf("messages were lost: %+v", c)
		}
	})
}

func requests(tb testing.TB, all ...*pubsubpb.StreamingPullRequest) []byte {
	tb.Helper()
	var list []byte
	for _, m := range all {
		list = protowire.AppendBytes(list, marshal(tb, m))
	}
	return list
}

// script is a stream whose client sends what was written down before.
type script struct {
	grpc.ServerStream

	t    *testing.T
	rest []byte
}

func (s *script) Context() context.Context { return s.t.Context() }

func (s *script) RecvMsg(m any) error {
	body, n := protowire.ConsumeBytes(s.rest)
	if n < 0 {
		return io.EOF
	}
	s.rest = s.rest[n:]
	if err := proto.Unmarshal(body, m.(proto.Message)); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func (s *script) SendMsg(m any) error {
	if _, err := proto.Marshal(m.(proto.Message)); err != nil {
		s.t.Errorf("a response cannot be sent: %v", err)
	}
	return nil
}

// FuzzFilter reads arbitrary filters and applies those that are valid.
func FuzzFilter(f *testing.F) {
	for _, filter := range []string{
		`attributes:a`, `attributes."a\u00e9" = "b"`, `NOT (attributes.a != "b" OR -hasPrefix(attributes.c, "d"))`, `((attributes:a`,
	} {
		f.Add(filter)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		b := broker.New(nil, nil)
		defer b.Close()
		s := pubsub.New(b)
		defer s.Close()
		r := newRegistry(s)
		call(t, r, "CreateTopic", marshal(t, &pubsubpb.Topic{Name: topic}))
		body, err := proto.Marshal(&pubsubpb.Subscription{Name: sub, Topic: topic, Filter: filter})
		if err != nil {
			t.Skip("no client can send it")
		}
		call(t, r, "CreateSubscription", body)
		call(t, r, "Publish", marshal(t, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Attributes: map[string]string{"a": "b"}}}}))
	})
}
