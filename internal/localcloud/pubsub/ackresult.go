package pubsub

import (
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// What the service says of an ack ID that did nothing, in an exactly-once
// subscription. Clients give up on PERMANENT_ and try TRANSIENT_ again.
const (
	invalidAckID   = "PERMANENT_FAILURE_INVALID_ACK_ID"
	unorderedAckID = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"
)

// ackResult tells which ack IDs of a request did something.
type ackResult struct {
	done      []string
	invalid   []string // malformed, or of a delivery that is over
	unordered []string // an earlier message of the ordering key is not acked yet
}

// parsedIDs are the ack IDs of a request, without repetitions.
type parsedIDs struct {
	texts     []string // the well-formed ones
	ids       []broker.AckID
	malformed []string
}

// parse sorts out the ack IDs of a request.
func parse(texts []string) parsedIDs {
	var p parsedIDs
	seen := make(map[string]struct{}, len(texts))
	for _, text := range texts {
		if _, again := seen[text]; again {
			continue
		}
		seen[text] = struct{}{}
		id, ok := parseAckID(text)
		if !ok {
			p.malformed = append(p.malformed, text)
			continue
		}
		p.texts = append(p.texts, text)
		p.ids = append(p.ids, id)
	}
	return p
}

// result puts the broker's answer into the client's words.
func (p *parsedIDs) result(stale, early []broker.AckID) ackResult {
	r := ackResult{invalid: p.malformed}
	slices.Sort(stale)
	slices.Sort(early)
	for i, id := range p.ids {
		to := &r.done
		if _, found := slices.BinarySearch(stale, id); found {
			to = &r.invalid
		} else if _, found := slices.BinarySearch(early, id); found {
			to = &r.unordered
		}
		*to = append(*to, p.texts[i])
	}
	return r
}

func (r *ackResult) add(o ackResult) {
	r.done = append(r.done, o.done...)
	r.invalid = append(r.invalid, o.invalid...)
	r.unordered = append(r.unordered, o.unordered...)
}

// err is the answer to a unary request: nil if all ack IDs did something. Those
// that the error does not name did. It is INVALID_ARGUMENT also for what is
// transient: a code that clients retry by themselves would make them send again
// what has succeeded.
func (r *ackResult) err() error {
	if len(r.invalid)+len(r.unordered) == 0 {
		return nil
	}
	failed := make(map[string]string, len(r.invalid)+len(r.unordered))
	for _, text := range r.invalid {
		failed[text] = invalidAckID
	}
	for _, text := range r.unordered {
		failed[text] = unorderedAckID
	}
	st := status.New(codes.InvalidArgument, "Some acknowledgement ids in the request were invalid. This could be because "+
		"the acknowledgement ids have expired or the acknowledgement ids were malformed.")
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{
		Reason: "EXACTLY_ONCE_ACKID_FAILURE", Domain: "pubsub.googleapis.com", Metadata: failed,
	})
	if err != nil { // it can be marshalled: it came in a request
		return toStatus(err)
	}
	return detailed.Err()
}

// ackConfirmation is the answer to acks on a stream.
func (r *ackResult) ackConfirmation() *pubsubpb.StreamingPullResponse_AcknowledgeConfirmation {
	return &pubsubpb.StreamingPullResponse_AcknowledgeConfirmation{
		AckIds: r.done, InvalidAckIds: r.invalid, UnorderedAckIds: r.unordered,
	}
}

// modifyConfirmation is the answer to changed deadlines on a stream.
func (r *ackResult) modifyConfirmation() *pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation {
	return &pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation{AckIds: r.done, InvalidAckIds: r.invalid}
}
