package localcloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/gcs"
	"github.com/spotbatch/spotbatch/internal/localcloud/guard"
	"github.com/spotbatch/spotbatch/internal/localcloud/pubsub"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

const (
	// minPingInterval is how often a client may ping an idle connection. The clients' defaults lie well above;
	// gRPC's own limit of 5 minutes would cut them off.
	minPingInterval = 5 * time.Second
	// headerTimeout keeps a silent HTTP connection from staying for ever.
	headerTimeout = 10 * time.Second
)

// Config says where the services listen. An address is host:port; port 0 takes a free one. An empty address
// leaves that service out.
type Config struct {
	PubSubAddr  string
	SpannerAddr string
	GCSAddr     string
	// AdminAddr is where faults are asked for and the state is shown. Only with it a history of messages is kept.
	AdminAddr string
	// Messages sees every step of every message, nil: nobody does. [broker.Recorder] says what it may do.
	Messages broker.Recorder
	// Commits is told of every commit that takes effect in Spanner, nil: nobody is. [rows.Observer] says what it
	// may do.
	Commits rows.Observer
}

// Default returns the ports that the official emulators use, on the loopback interface.
func Default() Config {
	return Config{PubSubAddr: "127.0.0.1:8085", SpannerAddr: "127.0.0.1:9010", GCSAddr: "127.0.0.1:4443", AdminAddr: "127.0.0.1:8090"}
}

// Service names one of the services in a ListenError.
type Service string

// The services.
const (
	PubSub  Service = "pubsub"
	Spanner Service = "spanner"
	GCS     Service = "gcs"
	Admin   Service = "admin" // localcloud's own API
)

// gcsName is the service's name in faults.
const gcsName = "storage"

// ListenError is Start's error when an address cannot be had.
type ListenError struct {
	Service Service
	Addr    string
	Err     error
}

// Error names the service and the address.
func (e *ListenError) Error() string {
	return fmt.Sprintf("listen on %s for %s: %v", e.Addr, e.Service, e.Err)
}

// Unwrap returns the system's error.
func (e *ListenError) Unwrap() error { return e.Err }

// Server is a running localcloud. It is safe for concurrent use.
type Server struct {
	faults    *fault.Faults
	broker    *broker.Broker
	pubsub    *pubsub.Service
	gcs       *gcs.Server // nil without Cloud Storage
	listeners map[Service]net.Listener
	grpc      []*grpc.Server
	http      []*http.Server

	requests context.Context // of HTTP; ends when the Server stops
	cancel   context.CancelFunc
	serving  errgroup.Group
	stop     sync.Once
	stopped  chan struct{}
	detach   func() bool // ends the watch over Start's context
}

// Start listens and serves, and returns once clients can connect. The Server runs until Close is called or
// ctx is done. With an error nothing is left running; an address that cannot be had is a *ListenError.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{faults: fault.New(), listeners: map[Service]net.Listener{}, stopped: make(chan struct{})}
	s.requests, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.listen(ctx, cfg); err != nil {
		for _, listener := range s.listeners {
			_ = listener.Close()
		}
		s.cancel()
		return nil, err
	}
	if err := s.serve(cfg); err != nil {
		s.Close()
		return nil, err
	}
	s.detach = context.AfterFunc(ctx, s.shutDown)
	return s, nil
}

// listen takes all addresses before anything is served, so that a taken one leaves nothing half started.
func (s *Server) listen(ctx context.Context, cfg Config) error {
	for _, wanted := range []struct {
		service Service
		addr    string
	}{{PubSub, cfg.PubSubAddr}, {Spanner, cfg.SpannerAddr}, {GCS, cfg.GCSAddr}, {Admin, cfg.AdminAddr}} {
		if wanted.addr == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", wanted.addr)
		if err != nil {
			return &ListenError{Service: wanted.service, Addr: wanted.addr, Err: err}
		}
		s.listeners[wanted.service] = listener
	}
	return nil
}

func (s *Server) serve(cfg Config) error {
	sources := admin.Sources{Faults: s.faults, Methods: admin.Methods{}}
	if listener := s.listeners[PubSub]; listener != nil {
		recorder := cfg.Messages
		if s.listeners[Admin] != nil {
			sources.History = admin.NewHistory(0)
			recorder = both(sources.History, cfg.Messages)
		}
		s.broker = broker.New(nil, recorder)
		sources.Broker = s.broker
		s.pubsub = pubsub.New(s.broker)
		s.serveGRPC(listener, s.pubsub.Register, pubsub.ServerOptions(), sources.Methods)
	}
	if listener := s.listeners[Spanner]; listener != nil {
		service := spanner.New(cfg.Commits)
		sources.Rows = service
		s.serveGRPC(listener, service.Register, spanner.ServerOptions(), sources.Methods)
	}
	if listener := s.listeners[GCS]; listener != nil {
		server, err := gcs.New()
		if err != nil {
			return err
		}
		s.gcs = server
		sources.Methods[gcsName] = gcs.Operations()
		s.serveHTTP(listener, s.faults.HTTP(gcsName, gcs.Operation, server.Handler()))
	}
	if listener := s.listeners[Admin]; listener != nil {
		server := admin.New(sources)
		s.serving.Go(func() error { return server.Run(s.requests) })
		s.serveHTTP(listener, server.Handler())
	}
	return nil
}

// both records with first, and with second unless that is nil.
func both(first, second broker.Recorder) broker.Recorder {
	if second == nil {
		return first
	}
	return recorders{first, second}
}

type recorders [2]broker.Recorder

func (r recorders) Record(e broker.Event) {
	r[0].Record(e)
	r[1].Record(e)
}

func (s *Server) serveHTTP(listener net.Listener, handler http.Handler) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return s.requests },
	}
	s.http = append(s.http, server)
	s.serving.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", listener.Addr(), err)
		}
		return nil
	})
}

// serveGRPC serves one API and adds its methods to those given. A panic is caught outside of the faults, so that
// both look like the service's own.
func (s *Server) serveGRPC(listener net.Listener, register func(grpc.ServiceRegistrar), options []grpc.ServerOption, methods admin.Methods) {
	server := grpc.NewServer(append(options,
		grpc.ChainUnaryInterceptor(guard.Unary, s.faults.Unary),
		grpc.ChainStreamInterceptor(guard.Stream, s.faults.Stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
	)...)
	register(server)
	for name, info := range server.GetServiceInfo() {
		for _, method := range info.Methods {
			methods[name] = append(methods[name], method.Name)
		}
	}
	s.grpc = append(s.grpc, server)
	s.serving.Go(func() error {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve %s: %w", listener.Addr(), err)
		}
		return nil
	})
}

// Addr returns the address on which the service listens, empty if it is left out.
func (s *Server) Addr(service Service) string {
	listener, ok := s.listeners[service]
	if !ok {
		return ""
	}
	return reachable(listener.Addr().String())
}

// reachable replaces "all interfaces" by the loopback one: the former is no address to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// Env returns the variables, as NAME=value, that point the official clients at this Server, and LOCALCLOUD_ADMIN_HOST.
func (s *Server) Env() []string {
	var env []string
	for _, v := range []struct {
		name, prefix string
		service      Service
	}{
		{"PUBSUB_EMULATOR_HOST", "", PubSub},
		{"SPANNER_EMULATOR_HOST", "", Spanner},
		{"STORAGE_EMULATOR_HOST", "http://", GCS},
		{"LOCALCLOUD_ADMIN_HOST", "", Admin},
	} {
		if addr := s.Addr(v.service); addr != "" {
			env = append(env, v.name+"="+v.prefix+addr)
		}
	}
	return env
}

// Faults returns the faults of the services; there are none until some are added. Cloud Storage is the service
// "storage" in them, with the methods of gcs.Operations.
func (s *Server) Faults() *fault.Faults { return s.faults }

// Broker returns the broker behind Pub/Sub, nil if that is left out.
func (s *Server) Broker() *broker.Broker { return s.broker }

// Wait returns when the Server has stopped: nil after Close or the end of Start's context, else what broke.
func (s *Server) Wait() error {
	return s.serving.Wait()
}

// Close stops at once: connections are closed, and everything that was stored is gone. Calling it again is fine.
func (s *Server) Close() {
	if s.detach != nil {
		s.detach()
	}
	s.shutDown()
	_ = s.Wait() // its error is for the caller of Wait
}

// shutDown closes what serves; Wait then returns.
func (s *Server) shutDown() {
	s.stop.Do(func() {
		defer close(s.stopped)
		if s.pubsub != nil {
			s.pubsub.Close()
			s.broker.Close()
		}
		for _, server := range s.grpc {
			server.Stop()
		}
		for _, server := range s.http {
			_ = server.Close()
		}
		s.cancel() // after the connections have gone: a request that hangs must not get an answer now
		if s.gcs != nil {
			s.gcs.Close()
		}
	})
	<-s.stopped
}
