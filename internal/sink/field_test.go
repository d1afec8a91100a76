package sink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// The tests of this file are cases of docs/field-cases.md that the server
// decides.

// What one call of Commit has is more than the server takes at once, the more
// so with the indexes of an operator. It is stored all the same, in parts, and
// a part that cannot be written leaves the others written (case 2.1).
func TestCommitLargerThanTheServerTakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		// refused is how many commits the server refuses to make at all.
		refused int
	}{{"all", 0}, {"one part refused", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			server, db := setup(t,
				"CREATE INDEX ByModel ON Results(ModelVersion, Worker)",
				"CREATE INDEX ByClass ON Results(ErrorClass)")
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.refused > 0 {
				server.Faults().Add(fault.Rule{Service: spannerService, Method: "Commit", Code: codes.PermissionDenied, Count: tt.refused})
			}
			const n = 8000
			results := make([]worker.Result, n)
			for i := range results {
				results[i] = ok(fmt.Sprint(i), "1")
			}
			stored := int64(0)
			for _, err := range db.Store().Commit(t.Context(), results) {
				switch {
				case err == nil:
					stored++
				case errors.Is(err, worker.ErrRejected) || worker.ClassOf(err, "") != worker.ClassStore:
					t.Fatalf("commit: %v", err)
				}
			}
			counts, err := db.Results().Count(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			if counts.OK != stored || (stored == n) != (tt.refused == 0) || stored < n/4 {
				t.Errorf("%d results are said to be stored, %d are, of %d", stored, counts.OK, n)
			}
		})
	}
}

// Whatever the server does instead of answering, calls end with their context,
// and no result is said to be stored (cases 2.5, 2.8).
func TestCallsEndWithTheirContext(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule fault.Rule
	}{
		{"aborts", fault.Rule{Code: codes.Aborted}},
		{"aborts late", fault.Rule{Code: codes.Aborted, Delay: 50 * time.Millisecond}},
		{"is not there", fault.Rule{Code: codes.Unavailable}},
		{"is overloaded", fault.Rule{Code: codes.ResourceExhausted}},
		{"is silent", fault.Rule{BlackHole: true}},
		{"is silent after the effect", fault.Rule{BlackHole: true, When: fault.After}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, db := setup(t)
			store := db.Store()
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{"Commit", "StreamingRead"} {
				rule := tt.rule
				rule.Service, rule.Method = spannerService, method
				server.Faults().Add(rule)
			}
			const limit = 500 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			start := time.Now()
			var calls sync.WaitGroup
			for i := range 50 {
				calls.Go(func() {
					for _, result := range []worker.Result{ok(fmt.Sprint(i), "1"), failed(fmt.Sprint(i), "no")} {
						if err := store.Commit(ctx, []worker.Result{result})[0]; worker.ClassOf(err, "") != worker.ClassStore || errors.Is(err, worker.ErrRejected) {
							t.Errorf("commit %s: %v, want an error of class store", result.Status, err)
						}
					}
				})
				calls.Go(func() {
					if _, err := store.Lookup(ctx, []item.Key{key(fmt.Sprint(i))}); worker.ClassOf(err, "") != worker.ClassStore {
						t.Errorf("lookup: %v, want an error of class store", err)
					}
				})
			}
			calls.Wait()
			if took := time.Since(start); took > limit+2*time.Second {
				t.Errorf("150 calls took %s, want about %s", took, limit)
			}
		})
	}
}

// strongOnly fails the test on a read that the server may answer from the past.
type strongOnly struct {
	grpc.ClientStream
	t *testing.T
}

func (s strongOnly) SendMsg(m any) error {
	if read, ok := m.(*spannerpb.ReadRequest); ok && !read.GetTransaction().GetSingleUse().GetReadOnly().GetStrong() {
		s.t.Errorf("a look-up reads with %v, want strongly", read.GetTransaction())
	}
	return s.ClientStream.SendMsg(m)
}

// A row that was committed before a look-up is seen by it, whoever wrote it and
// however short ago (case 2.14). The local Spanner answers a read of bounded
// staleness from the present, so the bound is looked at, too.
func TestLookupSeesTheLastCommit(t *testing.T) {
	server, writer := setup(t)
	db, err := sink.Open(t.Context(), "projects/demo/instances/spotbatch/databases/spotbatch", slog.New(slog.DiscardHandler),
		append(localcloudtest.SpannerOptions(server), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context,
			desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return strongOnly{stream, t}, err
		})))...)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := writer.Store()
	for i := range 50 {
		k := fmt.Sprint(i)
		commit(t, other, ok(k, "1"))
		found, err := db.Store().Lookup(t.Context(), []item.Key{key(k)})
		if err != nil || found[key(k)].Status != worker.StatusOK {
			t.Fatalf("look-up of what was just stored: %v, %v", found, err)
		}
	}
}
