package fault

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Unary applies the rules to unary calls.
func (f *Faults) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	rule, struck := f.strike(info.FullMethod)
	if !struck {
		return handler(ctx, req)
	}
	if rule.When == Before {
		if err := rule.act(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
	resp, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := rule.act(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return resp, nil
}

// Stream applies the rules to streams. A fault ends the stream.
func (f *Faults) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	rule, struck := f.strike(info.FullMethod)
	if !struck {
		return handler(srv, stream)
	}
	if rule.When == Before {
		if err := rule.act(stream.Context(), info.FullMethod); err != nil {
			return err
		}
		return handler(srv, stream)
	}
	broken := &brokenStream{ServerStream: stream, rule: rule, method: info.FullMethod}
	err := handler(srv, broken)
	if broken.fault != nil {
		return broken.fault // the handler may have put its own words around it
	}
	return err
}

// brokenStream strikes at the first message that is sent. One goroutine sends at a time, as gRPC demands.
type brokenStream struct {
	grpc.ServerStream
	rule   Rule
	method string
	struck bool
	fault  error
}

func (s *brokenStream) SendMsg(m any) error {
	if s.fault != nil {
		return s.fault
	}
	if !s.struck {
		s.struck = true
		if s.fault = s.rule.act(s.Context(), s.method); s.fault != nil {
			return s.fault
		}
	}
	return s.ServerStream.SendMsg(m)
}

// act does what the rule says and returns what the caller gets, nil for the real answer.
func (r Rule) act(ctx context.Context, method string) error {
	if r.BlackHole {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if r.Delay > 0 {
		timer := time.NewTimer(r.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if r.Code == codes.OK {
		return nil
	}
	message := r.Message
	if message == "" {
		message = "injected fault in " + method
	}
	return status.Error(r.Code, message)
}
