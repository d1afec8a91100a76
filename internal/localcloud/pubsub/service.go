package pubsub

import (
	"context"
	"errors"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress what they publish
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// Service serves the Publisher and the Subscriber API. It is safe for concurrent
// use.
type Service struct {
	broker *broker.Broker
	stop   chan struct{}
	once   sync.Once
}

// New returns a service on b. The caller keeps b and closes it after the server
// has stopped.
func New(b *broker.Broker) *Service {
	return &Service{broker: b, stop: make(chan struct{})}
}

// Register adds both APIs to a gRPC server made with ServerOptions.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	pubsubpb.RegisterPublisherServer(r, &publisher{broker: s.broker})
	pubsubpb.RegisterSubscriberServer(r, &subscriber{broker: s.broker, stop: s.stop})
}

// Close ends all streams and waiting pulls with UNAVAILABLE, so that a graceful
// stop of the server need not wait for them. Calling it again does nothing.
func (s *Service) Close() {
	s.once.Do(func() { close(s.stop) })
}

// maxRecvBytes leaves room above the service's limit of 10 MB a request, so that
// a request a little too large gets the service's answer and not gRPC's.
const maxRecvBytes = 20 << 20

// ServerOptions are what the gRPC server needs for this service.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.MaxRecvMsgSize(maxRecvBytes), grpc.MaxSendMsgSize(maxRecvBytes)}
}

var errStopping = status.Error(codes.Unavailable, "the server is stopping")

// toStatus turns a broker's error into the service's code, and for what clients
// are known to look at, into the service's words. A status passes.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	name := ""
	if resource, ok := errors.AsType[*broker.ResourceError](err); ok {
		name = resource.Name
	}
	switch {
	case errors.Is(err, broker.ErrTopicNotFound), errors.Is(err, broker.ErrSubscriptionNotFound):
		return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", name)
	case errors.Is(err, broker.ErrExists):
		return status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", name)
	case errors.Is(err, broker.ErrDetached):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, broker.ErrClosed):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	if st, ok := status.FromError(err); ok {
		return st.Err()
	}
	return status.Error(codes.Internal, err.Error())
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func unimplemented(what string) error {
	return status.Errorf(codes.Unimplemented, "localcloud does not support %s", what)
}
