package fault

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// HTTP applies the rules to an HTTP API under the name service; operation gives the method of a request. Code
// becomes the HTTP status that Google's APIs pair with it, with their JSON error as the body.
func (f *Faults) HTTP(service string, operation func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := operation(r)
		rule, struck := f.strike(call{service: service, method: method})
		switch {
		case !struck:
			next.ServeHTTP(w, r)
		case rule.When == Before:
			if err := rule.actHTTP(r, method); err != nil {
				writeFailure(w, err)
				return
			}
			next.ServeHTTP(w, r)
		default:
			ctx := r.Context()
			broken := &brokenWriter{to: w, header: http.Header{}, act: func() error { return rule.act(ctx, method) }}
			next.ServeHTTP(broken, r)
			if !broken.wrote { // an empty answer is one as well
				broken.WriteHeader(http.StatusOK)
			}
		}
	})
}

// actHTTP is act for a request. Only once the body has been read does the server notice that the client has gone.
func (r Rule) actHTTP(req *http.Request, method string) error {
	if r.BlackHole || r.Delay > 0 && r.Code != codes.OK {
		_, _ = io.Copy(io.Discard, req.Body) // its error is the end of the connection
	}
	return r.act(req.Context(), method)
}

// brokenWriter strikes when the answer starts: by then the request has had its effect. One goroutine writes.
type brokenWriter struct {
	to     http.ResponseWriter
	act    func() error // what the rule does, once
	header http.Header  // kept back until the answer is let through
	wrote  bool
	fault  error
}

func (w *brokenWriter) Header() http.Header { return w.header }

func (w *brokenWriter) WriteHeader(code int) {
	if w.wrote {
		return
	}
	w.wrote = true
	if code < http.StatusBadRequest { // a refused request had no effect to lose the answer of
		if w.fault = w.act(); w.fault != nil {
			writeFailure(w.to, w.fault)
			return
		}
	}
	maps.Copy(w.to.Header(), w.header)
	w.to.WriteHeader(code)
}

// Write takes what a lost answer holds as if it had been sent.
func (w *brokenWriter) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.fault != nil {
		return len(p), nil
	}
	return w.to.Write(p)
}

// httpStatus pairs codes with HTTP as google.rpc.Code documents it; what is missing is 500.
var httpStatus = map[codes.Code]int{
	codes.Canceled: 499, codes.InvalidArgument: http.StatusBadRequest, codes.DeadlineExceeded: http.StatusGatewayTimeout,
	codes.NotFound: http.StatusNotFound, codes.AlreadyExists: http.StatusConflict, codes.PermissionDenied: http.StatusForbidden,
	codes.Unauthenticated: http.StatusUnauthorized, codes.ResourceExhausted: http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest, codes.Aborted: http.StatusConflict, codes.OutOfRange: http.StatusBadRequest,
	codes.Unimplemented: http.StatusNotImplemented, codes.Unavailable: http.StatusServiceUnavailable,
}

func writeFailure(w http.ResponseWriter, err error) {
	code, ok := httpStatus[status.Code(err)]
	if !ok {
		code = http.StatusInternalServerError
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]failure{"error": {code, status.Convert(err).Message()}}) // the client may have gone
}
