package fault

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Unary applies the rules to unary calls.
func (f *Faults) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	rule, struck := f.strike(rpc(info.FullMethod, false))
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
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	opened, rule, struck := f.enter(rpc(info.FullMethod, true), end)
	defer f.leave(opened)
	if struck && rule.When == Before {
		if err := rule.act(ctx, info.FullMethod); err != nil {
			return err
		}
	}
	watched := &watchedStream{ServerStream: stream, ctx: ctx, rule: rule, method: info.FullMethod, armed: struck && rule.When == After}
	err := handler(srv, watched)
	// The handler may have put its own words around what ended it.
	if cause, ok := errors.AsType[closed](context.Cause(ctx)); ok {
		return cause.error
	}
	if watched.fault != nil {
		return watched.fault
	}
	return err
}

// closed is why a rule with Close ended a stream: the status that the client gets.
type closed struct{ error }

// watchedStream can be ended by its context, and strikes at the first message that is sent if it is armed.
// One goroutine sends at a time, as gRPC demands.
type watchedStream struct {
	grpc.ServerStream
	ctx    context.Context
	rule   Rule
	method string
	armed  bool
	fault  error
}

func (s *watchedStream) Context() context.Context { return s.ctx }

func (s *watchedStream) SendMsg(m any) error {
	if s.fault != nil {
		return s.fault
	}
	if s.armed {
		s.armed = false
		if s.fault = s.rule.act(s.ctx, s.method); s.fault != nil {
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
	if r.Code == codes.OK && !r.Close {
		return nil
	}
	return r.failure(method)
}

// failure is the status that takes the place of an answer.
func (r Rule) failure(method string) error {
	code, message := r.Code, r.Message
	if code == codes.OK {
		code = codes.Unavailable // of Close
	}
	if message == "" {
		message = "injected fault in " + method
	}
	return status.Error(code, message)
}
