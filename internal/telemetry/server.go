package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// server serves /metrics.
type server struct {
	http http.Server
	addr string
	done chan struct{} // closed when Serve has returned
}

// serve listens at addr, so that a port that is taken is an error at start,
// and serves until shutdown.
func serve(ctx context.Context, addr string, handler http.Handler, log *slog.Logger) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("telemetry.metrics_addr: %q: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	s := &server{
		http: http.Server{
			Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		addr: listener.Addr().String(),
		done: make(chan struct{}),
	}
	go func() { // ends with shutdown
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			// Metrics that cannot be read are no reason to stop working.
			log.Error("metrics server stopped", "addr", s.addr, "error", err)
		}
	}()
	return s, nil
}

// shutdown lets a scrape under way finish within ctx.
func (s *server) shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}
