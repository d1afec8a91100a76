package pubsub

import (
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// The service's limits, from its page "Quotas and limits" and the API reference.
const (
	maxPublishBytes    = 10_000_000
	maxPublishMessages = 1000
	maxAttributes      = 100
	maxAttributeKey    = 256  // bytes
	maxAttributeValue  = 1024 // bytes
	maxOrderingKey     = 1024 // bytes

	minAckDeadline = 10  // seconds
	maxAckDeadline = 600 // seconds

	minRetention     = 10 * time.Minute
	maxRetention     = 31 * 24 * time.Hour
	defaultRetention = 7 * 24 * time.Hour

	minExpirationTTL     = 24 * time.Hour
	defaultExpirationTTL = 31 * 24 * time.Hour

	minDeliveryAttempts = 5
	maxDeliveryAttempts = 100

	maxBackoff        = 600 * time.Second
	defaultMinBackoff = 10 * time.Second

	maxAckRequestBytes = 512 << 10 // acknowledge and modify ack deadline
)

func checkPublish(req *pubsubpb.PublishRequest) error {
	if err := checkName(req.GetTopic(), "topics"); err != nil {
		return err
	}
	msgs := req.GetMessages()
	if len(msgs) == 0 {
		return invalid("no messages in the publish request: want at least 1")
	}
	if len(msgs) > maxPublishMessages {
		return invalid("the value for message_count is too large: the request has %d messages, the maximum is %d", len(msgs), maxPublishMessages)
	}
	if n := proto.Size(req); n > maxPublishBytes {
		return invalid("the value for request_size is too large: the request has %d bytes, the maximum is %d", n, maxPublishBytes)
	}
	for i, m := range msgs {
		if err := checkMessage(i, m); err != nil {
			return err
		}
		if m.GetOrderingKey() != msgs[0].GetOrderingKey() {
			return invalid("messages 0 and %d have different ordering keys: all messages of a request must share one", i)
		}
	}
	return nil
}

func checkMessage(i int, m *pubsubpb.PubsubMessage) error {
	attrs := m.GetAttributes()
	if len(m.GetData()) == 0 && len(attrs) == 0 {
		return invalid("message %d has neither data nor attributes: one of them must be there", i)
	}
	if len(attrs) > maxAttributes {
		return invalid("message %d has %d attributes, the maximum is %d", i, len(attrs), maxAttributes)
	}
	if n := len(m.GetOrderingKey()); n > maxOrderingKey {
		return invalid("message %d has an ordering key of %d bytes, the maximum is %d", i, n, maxOrderingKey)
	}
	for k, v := range attrs {
		switch {
		case k == "":
			return invalid("message %d has an attribute with an empty key", i)
		case len(k) > maxAttributeKey:
			return invalid("message %d has an attribute key of %d bytes, the maximum is %d", i, len(k), maxAttributeKey)
		case len(v) > maxAttributeValue:
			return invalid("message %d has a value of %d bytes for attribute %q, the maximum is %d", i, len(v), k, maxAttributeValue)
		// Clients put their trace context into attributes with this prefix.
		case strings.HasPrefix(k, "goog") && !strings.HasPrefix(k, "googclient_"):
			return invalid("message %d has attribute %q: keys that begin with \"goog\" are reserved", i, k)
		}
	}
	return nil
}

// checkAckDeadline checks a deadline that must lie in the service's range.
func checkAckDeadline(field string, seconds int32) error {
	if seconds < minAckDeadline || seconds > maxAckDeadline {
		return invalid("%s is %d: want %d to %d seconds", field, seconds, minAckDeadline, maxAckDeadline)
	}
	return nil
}

// checkModifiedDeadline checks a deadline for deliveries; 0 is a nack.
func checkModifiedDeadline(seconds int32) error {
	if seconds < 0 || seconds > maxAckDeadline {
		return invalid("ack deadline is %d: want 0 to %d seconds", seconds, maxAckDeadline)
	}
	return nil
}
