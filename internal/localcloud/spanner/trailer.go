package spanner

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// retryInfoTrailer is where the service sends how long an aborted client is to wait, beside the details of the
// status. Not all clients read those: without the trailer, Node's waits for seconds.
const retryInfoTrailer = "google.rpc.retryinfo-bin"

// unaryTrailer adds the trailer to unary calls. It belongs outside of injected faults, so that an ABORTED of
// theirs looks like the service's.
func unaryTrailer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	err = withRetryInfo(err)
	if trailer := retryInfo(err); trailer != nil {
		_ = grpc.SetTrailer(ctx, trailer) // fails outside of a call only
	}
	return resp, err
}

// streamTrailer adds the trailer to streams, and sends their header before anything can fail: Node's client takes
// an error without one for a broken connection, and tries again for seconds.
func streamTrailer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	err := withRetryInfo(handler(srv, stream))
	if trailer := retryInfo(err); trailer != nil {
		stream.SetTrailer(trailer)
	}
	return err
}

// withRetryInfo completes an ABORTED that does not say how long to wait.
func withRetryInfo(err error) error {
	if st := status.Convert(err); st.Code() == codes.Aborted && len(st.Details()) == 0 {
		return rows.Aborted(st.Message())
	}
	return err
}

// retryInfo returns the trailer that belongs to an error, nil if it says nothing of a retry.
func retryInfo(err error) grpcmetadata.MD {
	if err == nil {
		return nil
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			if encoded, err := proto.Marshal(info); err == nil {
				return grpcmetadata.Pairs(retryInfoTrailer, string(encoded))
			}
		}
	}
	return nil
}
