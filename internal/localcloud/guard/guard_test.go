package guard_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/guard"
)

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

func TestPanicBecomesInternal(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	resp, err := guard.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/s/Unary"}, func(context.Context, any) (any, error) { panic("boom") })
	if resp != nil || status.Code(err) != codes.Internal {
		t.Errorf("unary = %v, %v, want Internal", resp, err)
	}
	err = guard.Stream(nil, stream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/s/Stream"}, func(any, grpc.ServerStream) error { panic("boom") })
	if status.Code(err) != codes.Internal {
		t.Errorf("stream = %v, want Internal", err)
	}
	for _, want := range []string{"/s/Unary", "/s/Stream", "guard_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}
