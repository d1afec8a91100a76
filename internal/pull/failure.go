package pull

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// How an exactly-once subscription begins what it says of an ID.
const (
	failedForGood   = "PERMANENT_FAILURE_"
	failedInPassing = "TRANSIENT_FAILURE_"
)

// failure is why a call failed for one ack ID; empty means that it did not.
type failure string

// passing reports whether the same call may succeed later.
func (f failure) passing() bool { return strings.HasPrefix(string(f), failedInPassing) }

// failedIDs returns for which ack IDs a call failed. Exactly-once subscriptions
// say that of each ID, in the metadata of an ErrorInfo; for the IDs that are
// not named there the call succeeded. It is empty when err is about the call as
// a whole.
func failedIDs(err error) map[string]failure {
	failed := make(map[string]failure)
	for _, detail := range status.Convert(err).Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok {
			continue
		}
		for id, reason := range info.GetMetadata() {
			if strings.HasPrefix(reason, failedForGood) || strings.HasPrefix(reason, failedInPassing) {
				failed[id] = failure(reason)
			}
		}
	}
	return failed
}
