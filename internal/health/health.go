// Package health serves the two questions that Kubernetes asks: is the process
// alive, and is it ready for work.
package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server answers /livez and /readyz. Make it with Listen.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens addr (host:port). /livez answers 200 while alive returns nil, else
// 503 with the error; /readyz answers 200 while ready says so, else 503. Both
// must be safe for concurrent use.
func Listen(ctx context.Context, addr string, alive func() error, ready func() bool) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("health.addr %s: %w; choose another address or stop what listens there", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, alive()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			answer(w, errNotReady)
			return
		}
		answer(w, nil)
	})
	return &Server{
		listener: listener,
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
	}, nil
}

var errNotReady = errors.New("not ready")

func answer(w http.ResponseWriter, problem error) {
	text := "ok\n"
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = problem.Error() + "\n"
	}
	// A client that is gone needs no answer.
	_, _ = w.Write([]byte(text))
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until Close. It returns nil after Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health: %w", err)
	}
	return nil
}

// Close ends Serve at once.
func (s *Server) Close() error {
	if err := s.http.Close(); err != nil {
		return fmt.Errorf("close health server: %w", err)
	}
	return nil
}
