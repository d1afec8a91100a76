// Package guard keeps a bug in one RPC handler from ending the process: the panic becomes INTERNAL for that
// call, and its stack goes to the log.
package guard

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Unary is the interceptor for unary calls. It belongs first in a chain, so that it covers the others.
func Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, internal(ctx, info.FullMethod, p)
		}
	}()
	return handler(ctx, req)
}

// Stream is the interceptor for streaming calls.
func Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = internal(stream.Context(), info.FullMethod, p)
		}
	}()
	return handler(srv, stream)
}

func internal(ctx context.Context, method string, p any) error {
	slog.ErrorContext(ctx, "rpc handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Errorf(codes.Internal, "localcloud: %s panicked: %v", method, p)
}
