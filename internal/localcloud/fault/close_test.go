package fault_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

// open serves a stream until its context ends.
func open(ctx context.Context, f *fault.Faults, method string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		//nolint:contextcheck // a stream carries its context
		ended <- f.Stream(nil, &stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, s grpc.ServerStream) error {
			<-s.Context().Done()
			return s.Context().Err()
		})
	}()
	return ended
}

func TestCloseStrikesOpenStreamsAndThenNewOnes(t *testing.T) {
	const pull, read = "/google.pubsub.v1.Subscriber/StreamingPull", "/google.spanner.v1.Spanner/StreamingRead"
	synctest.Test(t, func(t *testing.T) {
		f := fault.New()
		ctx, cancel := context.WithCancel(t.Context())
		first := open(ctx, f, pull)
		synctest.Wait()
		second := open(ctx, f, pull)
		other := open(ctx, f, read)
		synctest.Wait()

		f.Add(fault.Rule{Method: "StreamingPull", Close: true, Count: 1})
		if err := <-first; status.Code(err) != codes.Unavailable {
			t.Errorf("the oldest stream = %v, want Unavailable", err)
		}
		f.Add(fault.Rule{Method: "StreamingPull", Close: true, Code: codes.Aborted, Count: 2})
		if err := <-second; status.Code(err) != codes.Aborted {
			t.Errorf("the second stream = %v, want Aborted", err)
		}
		if err := <-open(ctx, f, pull); status.Code(err) != codes.Aborted {
			t.Errorf("a new stream = %v, want Aborted", err)
		}
		if left := f.Active(); len(left) != 0 {
			t.Errorf("rules that are spent: %v", left)
		}
		effects := 0
		f.Add(fault.Rule{Close: true, Method: "Commit"})
		if code := call(ctx, f, commit, &effects); code != codes.OK {
			t.Errorf("unary call = %v, want OK", code)
		}
		third := open(ctx, f, pull)
		synctest.Wait()
		cancel()
		for name, ended := range map[string]<-chan error{"another method": other, "a later stream": third} {
			if err := <-ended; status.Code(err) != codes.Unknown { // context.Canceled, as the handler gave it
				t.Errorf("%s = %v, want its own end", name, err)
			}
		}
	})
}

func TestActiveTellsWhatIsLeft(t *testing.T) {
	f := fault.New()
	f.Add(fault.Rule{Code: codes.Aborted, Method: "Commit", Count: 3})
	keep := f.Add(fault.Rule{Code: codes.Aborted, Method: "Read"})
	effects := 0
	for range 2 {
		call(t.Context(), f, commit, &effects)
	}
	active := f.Active()
	if len(active) != 2 || active[0].Struck != 2 || active[0].Rule.Count != 1 || active[1].ID != keep || active[1].Struck != 0 {
		t.Errorf("active = %+v", active)
	}
	if !f.Remove(keep) || f.Remove(keep) || f.Clear() != 1 || f.Clear() != 0 {
		t.Error("Remove and Clear do not tell what they did")
	}
}

func TestValidate(t *testing.T) {
	bad := map[string]fault.Rule{
		"nothing":             {Method: "Commit", Count: 1},
		"no code":             {Code: 17},
		"negative delay":      {Delay: -time.Second},
		"negative count":      {Code: codes.Aborted, Count: -1},
		"probability":         {Code: codes.Aborted, Probability: 1.1},
		"negative chance":     {Code: codes.Aborted, Probability: -0.1},
		"no number":           {Code: codes.Aborted, Probability: math.NaN()},
		"hole with code":      {BlackHole: true, Code: codes.Aborted},
		"hole that closes":    {BlackHole: true, Close: true},
		"close after":         {Close: true, When: fault.After},
		"close after a delay": {Close: true, Delay: time.Second},
	}
	for name, rule := range bad {
		if rule.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, rule)
		}
	}
	good := []fault.Rule{
		{Code: codes.Unauthenticated}, {Delay: time.Second, Code: codes.Aborted}, {BlackHole: true, Delay: time.Second, When: fault.After}, {Close: true, Probability: 1},
	}
	for _, rule := range good {
		if err := rule.Validate(); err != nil {
			t.Errorf("%+v: %v", rule, err)
		}
	}
}
