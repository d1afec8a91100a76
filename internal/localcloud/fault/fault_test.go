package fault_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

const commit = "/google.spanner.v1.Spanner/Commit"

// call runs a unary call that takes effect by counting, and returns its code.
func call(ctx context.Context, f *fault.Faults, method string, effects *int) codes.Code {
	_, err := f.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
		*effects++
		return "done", nil
	})
	return status.Code(err)
}

func TestUnaryRules(t *testing.T) {
	tests := map[string]struct {
		rule    fault.Rule
		method  string
		want    []codes.Code
		effects int
	}{
		"before the effect":  {fault.Rule{Method: "Commit", Code: codes.Unavailable, Count: 1}, commit, []codes.Code{codes.Unavailable, codes.OK, codes.OK}, 2},
		"after the effect":   {fault.Rule{Method: "Commit", Code: codes.Unavailable, When: fault.After, Count: 2}, commit, []codes.Code{codes.Unavailable, codes.Unavailable, codes.OK}, 3},
		"no end":             {fault.Rule{Code: codes.Aborted}, commit, []codes.Code{codes.Aborted, codes.Aborted, codes.Aborted}, 0},
		"another method":     {fault.Rule{Method: "Read", Code: codes.Aborted}, commit, []codes.Code{codes.OK}, 1},
		"another service":    {fault.Rule{Service: "google.pubsub.v1.Publisher", Code: codes.Aborted}, commit, []codes.Code{codes.OK}, 1},
		"service and method": {fault.Rule{Service: "google.spanner.v1.Spanner", Method: "Commit", Code: codes.Aborted, Count: 1}, commit, []codes.Code{codes.Aborted, codes.OK}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := fault.New()
			f.Add(test.rule)
			effects := 0
			var got []codes.Code
			for range test.want {
				got = append(got, call(t.Context(), f, test.method, &effects))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			if effects != test.effects {
				t.Errorf("%d calls took effect, want %d", effects, test.effects)
			}
		})
	}
}

func TestProbabilityIsRepeatable(t *testing.T) {
	pattern := func(seed uint64) (struck []bool) {
		f := fault.New()
		f.Add(fault.Rule{Code: codes.Aborted, Probability: 0.3, Seed: seed})
		effects := 0
		for range 200 {
			struck = append(struck, call(t.Context(), f, commit, &effects) == codes.Aborted)
		}
		if effects < 100 || effects > 180 {
			t.Errorf("%d of 200 calls passed, want about 140", effects)
		}
		return struck
	}
	if diff := cmp.Diff(pattern(7), pattern(7)); diff != "" {
		t.Errorf("the same seed struck other calls:\n%s", diff)
	}
	if cmp.Equal(pattern(7), pattern(8)) {
		t.Error("two seeds struck the same calls")
	}
}

func TestDelayAndBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fault.New()
		id := f.Add(fault.Rule{Delay: 3 * time.Second})
		effects := 0
		start := time.Now()
		if code := call(t.Context(), f, commit, &effects); code != codes.OK || time.Since(start) != 3*time.Second {
			t.Errorf("delayed call = %v after %v, want OK after 3s", code, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if code := call(ctx, f, commit, &effects); code != codes.DeadlineExceeded {
			t.Errorf("call with a shorter deadline = %v, want DeadlineExceeded", code)
		}
		f.Remove(id)

		f.Add(fault.Rule{BlackHole: true, When: fault.After})
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, effects = time.Now(), 0
		if code := call(ctx, f, commit, &effects); code != codes.DeadlineExceeded || time.Since(start) != time.Hour || effects != 1 {
			t.Errorf("call into the black hole = %v after %v with %d effects, want DeadlineExceeded after 1h with 1", code, time.Since(start), effects)
		}
		f.Clear()
		if rules := f.Rules(); len(rules) != 0 {
			t.Errorf("rules after Clear = %v", rules)
		}
		if code := call(t.Context(), f, commit, &effects); code != codes.OK {
			t.Errorf("call after Clear = %v", code)
		}
	})
}

// stream is a server stream that keeps what is sent.
type stream struct {
	grpc.ServerStream
	ctx  context.Context
	sent int
}

func (s *stream) Context() context.Context { return s.ctx }
func (s *stream) SendMsg(any) error        { s.sent++; return nil }

func TestStreamRules(t *testing.T) {
	tests := map[string]struct {
		when fault.When
		want int // effects
	}{
		"as it opens":          {fault.Before, 0},
		"at its first message": {fault.After, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := fault.New()
			f.Add(fault.Rule{Code: codes.Unavailable, When: test.when, Count: 1, Message: "gone"})
			effects := 0
			handler := func(_ any, s grpc.ServerStream) error {
				effects++
				for range 3 {
					if err := s.SendMsg(nil); err != nil {
						return errors.New("stream broke")
					}
				}
				return nil
			}
			s := &stream{ctx: t.Context()}
			info := &grpc.StreamServerInfo{FullMethod: "/google.pubsub.v1.Subscriber/StreamingPull"}
			err := f.Stream(nil, s, info, handler)
			if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "gone" {
				t.Errorf("stream = %v, want Unavailable: gone", err)
			}
			if effects != test.want || s.sent != 0 {
				t.Errorf("%d effects and %d messages, want %d and 0", effects, s.sent, test.want)
			}
			if err := f.Stream(nil, s, info, handler); err != nil || s.sent != 3 {
				t.Errorf("next stream = %v with %d messages, want 3", err, s.sent)
			}
		})
	}
}
