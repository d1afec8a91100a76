package pubsub

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// publisher serves google.pubsub.v1.Publisher.
type publisher struct {
	pubsubpb.UnimplementedPublisherServer

	broker *broker.Broker
}

// topicFields are the fields of a Topic that have an effect here or are set by
// the server only.
var topicFields = map[string]bool{"name": true, "labels": true, "message_retention_duration": true, "state": true, "satisfies_pzs": true}

// mutableTopicFields are those that an update may name, immutableTopicFields those
// that the service never changes.
var (
	mutableTopicFields   = map[string]bool{"labels": true, "message_retention_duration": true}
	immutableTopicFields = []string{"name", "kms_key_name", "state", "satisfies_pzs", "tags"}
)

func (p *publisher) CreateTopic(_ context.Context, t *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	if err := checkName(t.GetName(), "topics"); err != nil {
		return nil, err
	}
	if err := onlyFields(t, topicFields); err != nil {
		return nil, err
	}
	c := broker.TopicConfig{Name: t.GetName()}
	if err := configureTopic(&c, t); err != nil {
		return nil, err
	}
	if err := p.broker.CreateTopic(c); err != nil {
		return nil, toStatus(err)
	}
	return topicProto(c), nil
}

// configureTopic checks the mutable fields of the API and puts them into the
// broker's description.
func configureTopic(c *broker.TopicConfig, t *pubsubpb.Topic) error {
	c.Labels = maps.Clone(t.GetLabels())
	keep, err := duration("message_retention_duration", t.GetMessageRetentionDuration(), 0, minRetention, maxRetention)
	c.Retention = keep
	return err
}

func (p *publisher) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	if err := checkName(req.GetTopic(), "topics"); err != nil {
		return nil, err
	}
	c, err := p.broker.Topic(req.GetTopic())
	if err != nil {
		return nil, toStatus(err)
	}
	return topicProto(c), nil
}

func (p *publisher) UpdateTopic(_ context.Context, req *pubsubpb.UpdateTopicRequest) (*pubsubpb.Topic, error) {
	t := req.GetTopic()
	if err := checkName(t.GetName(), "topics"); err != nil {
		return nil, err
	}
	c, err := p.broker.UpdateTopic(t.GetName(), func(c *broker.TopicConfig) error {
		merged := topicProto(*c)
		if err := merge(merged, t, req.GetUpdateMask().GetPaths(), mutableTopicFields, immutableTopicFields); err != nil {
			return err
		}
		return configureTopic(c, merged)
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return topicProto(c), nil
}

func (p *publisher) ListTopics(_ context.Context, req *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	if err := checkProject(req.GetProject()); err != nil {
		return nil, err
	}
	all := make(map[string]broker.TopicConfig)
	var names []string
	for _, c := range p.broker.Topics() {
		if strings.HasPrefix(c.Name, req.GetProject()+"/") {
			all[c.Name] = c
			names = append(names, c.Name)
		}
	}
	names, next, err := page(names, req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	resp := &pubsubpb.ListTopicsResponse{NextPageToken: next}
	for _, name := range names {
		resp.Topics = append(resp.Topics, topicProto(all[name]))
	}
	return resp, nil
}

func (p *publisher) ListTopicSubscriptions(_ context.Context, req *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	if err := checkName(req.GetTopic(), "topics"); err != nil {
		return nil, err
	}
	names, err := p.broker.TopicSubscriptions(req.GetTopic())
	if err != nil {
		return nil, toStatus(err)
	}
	names, next, err := page(names, req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &pubsubpb.ListTopicSubscriptionsResponse{Subscriptions: names, NextPageToken: next}, nil
}

func (p *publisher) DeleteTopic(_ context.Context, req *pubsubpb.DeleteTopicRequest) (*emptypb.Empty, error) {
	if err := checkName(req.GetTopic(), "topics"); err != nil {
		return nil, err
	}
	if err := p.broker.DeleteTopic(req.GetTopic()); err != nil {
		return nil, toStatus(err)
	}
	return &emptypb.Empty{}, nil
}

func (p *publisher) DetachSubscription(_ context.Context, req *pubsubpb.DetachSubscriptionRequest) (*pubsubpb.DetachSubscriptionResponse, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	if err := p.broker.Detach(req.GetSubscription()); err != nil {
		return nil, toStatus(err)
	}
	return &pubsubpb.DetachSubscriptionResponse{}, nil
}

func (p *publisher) ListTopicSnapshots(context.Context, *pubsubpb.ListTopicSnapshotsRequest) (*pubsubpb.ListTopicSnapshotsResponse, error) {
	return nil, unimplemented("snapshots")
}

func (p *publisher) Publish(_ context.Context, req *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	if err := checkPublish(req); err != nil {
		return nil, err
	}
	// One allocation a message: a shared array would keep all of a request in
	// memory until its last message is acked.
	msgs := make([]*broker.Message, len(req.GetMessages()))
	for i, m := range req.GetMessages() {
		msgs[i] = &broker.Message{Data: m.GetData(), Attributes: m.GetAttributes(), OrderingKey: m.GetOrderingKey()}
	}
	ids, err := p.broker.Publish(req.GetTopic(), msgs)
	if err != nil {
		return nil, toStatus(err)
	}
	resp := &pubsubpb.PublishResponse{MessageIds: make([]string, len(ids))}
	for i, id := range ids {
		resp.MessageIds[i] = messageID(id)
	}
	return resp, nil
}

func messageID(id broker.MessageID) string { return strconv.FormatUint(uint64(id), 10) }

func topicProto(c broker.TopicConfig) *pubsubpb.Topic {
	t := &pubsubpb.Topic{Name: c.Name, Labels: c.Labels, State: pubsubpb.Topic_ACTIVE}
	if c.Retention > 0 {
		t.MessageRetentionDuration = durationpb.New(c.Retention)
	}
	return t
}
