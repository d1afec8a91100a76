package fault_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

// serve makes a request of a handler that takes effect by counting.
func serve(ctx context.Context, f *fault.Faults, effects *int, refuse bool) *httptest.ResponseRecorder {
	handler := f.HTTP("storage", func(r *http.Request) string { return "objects." + r.URL.Path[1:] }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*effects++
		w.Header().Set("X-Effect", "yes")
		if refuse {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
		_, _ = io.WriteString(w, "done")
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/get", strings.NewReader("body")))
	return w
}

func TestHTTPRules(t *testing.T) {
	tests := map[string]struct {
		rule    fault.Rule
		refuse  bool
		code    int
		effects int
	}{
		"before":            {fault.Rule{Service: "storage", Method: "objects.get", Code: codes.Unavailable}, false, 503, 0},
		"after":             {fault.Rule{Method: "objects.get", Code: codes.ResourceExhausted, When: fault.After}, false, 429, 1},
		"unknown":           {fault.Rule{Code: codes.Unknown}, false, 500, 0},
		"another method":    {fault.Rule{Method: "objects.insert", Code: codes.Aborted}, false, 200, 1},
		"another service":   {fault.Rule{Service: "google.pubsub.v1.Publisher", Code: codes.Aborted}, false, 200, 1},
		"close is for gRPC": {fault.Rule{Close: true}, false, 200, 1},
		"refused anyway":    {fault.Rule{Code: codes.Unavailable, When: fault.After}, true, 412, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := fault.New()
			f.Add(test.rule)
			effects := 0
			w := serve(t.Context(), f, &effects, test.refuse)
			if w.Code != test.code || effects != test.effects {
				t.Errorf("status %d with %d effects, want %d with %d", w.Code, effects, test.code, test.effects)
			}
			if untouched := w.Header().Get("X-Effect") == "yes" && w.Body.String() == "done"; untouched != (test.code < 300 || test.refuse) {
				t.Errorf("answer = %v %s", w.Header(), w.Body)
			}
		})
	}
}

func TestHTTPDelayAndBlackHole(t *testing.T) {
	for name, when := range map[string]fault.When{"before": fault.Before, "after": fault.After} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fault.New()
				f.Add(fault.Rule{Delay: time.Minute, When: when, Count: 1})
				effects := 0
				start := time.Now()
				if w := serve(t.Context(), f, &effects, false); w.Code != 200 || w.Body.String() != "done" || time.Since(start) != time.Minute {
					t.Errorf("delayed = %d %s after %v", w.Code, w.Body, time.Since(start))
				}
				f.Add(fault.Rule{BlackHole: true, When: when})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start = time.Now()
				if serve(ctx, f, &effects, false); time.Since(start) != time.Hour {
					t.Errorf("the black hole let go after %v", time.Since(start))
				}
			})
		})
	}
}
