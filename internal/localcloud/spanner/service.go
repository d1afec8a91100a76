package spanner

import (
	"fmt"
	"sync"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// maxRequestBytes lets a commit that is over the service's 100 MB limit arrive, so that it gets the service's
// answer and not a transport error.
const maxRequestBytes = 256 << 20

// ServerOptions returns the options that the gRPC server for a Service needs.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.ChainUnaryInterceptor(unaryTrailer), grpc.ChainStreamInterceptor(streamTrailer),
	}
}

// Service is the whole local Spanner. Make one with New. It is safe for concurrent use and needs no closing.
type Service struct {
	newEngine func() engine

	mu         sync.Mutex
	instances  map[string]*instancepb.Instance
	databases  map[string]*database
	operations map[string]*longrunningpb.Operation
	issued     int // operations so far
}

// New returns a Service without instances. observe sees the commits of all databases; it may be nil.
func New(observe rows.Observer) *Service {
	return &Service{
		newEngine:  func() engine { return rows.New(observe) },
		instances:  map[string]*instancepb.Instance{},
		databases:  map[string]*database{},
		operations: map[string]*longrunningpb.Operation{},
	}
}

// Register adds the service's APIs to a gRPC server.
func (s *Service) Register(registrar grpc.ServiceRegistrar) {
	spannerpb.RegisterSpannerServer(registrar, &dataAPI{service: s})
	instancepb.RegisterInstanceAdminServer(registrar, &instanceAPI{service: s})
	databasepb.RegisterDatabaseAdminServer(registrar, &databaseAPI{service: s})
	longrunningpb.RegisterOperationsServer(registrar, &operationsAPI{service: s})
}

// database returns the named database, or NOT_FOUND.
func (s *Service) database(name string) (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if db, ok := s.databases[name]; ok {
		return db, nil
	}
	return nil, notFound("Database", databaseType, name)
}

// session returns the database and session of a session name.
func (s *Service) session(name string) (*database, *session, error) {
	databaseName, ok := parentOf(name, "sessions")
	if !ok {
		return nil, nil, status.Errorf(codes.InvalidArgument, "Invalid session name: %q. Use projects/P/instances/I/databases/D/sessions/S.", name)
	}
	db, err := s.database(databaseName)
	if err != nil {
		return nil, nil, notFound("Session", sessionType, name) // a client makes a new session on this, and learns more there
	}
	session, err := db.session(name)
	return db, session, err
}

// operationName returns a new name for an operation below the parent.
func (s *Service) operationName(parent string) string {
	s.issued++
	return fmt.Sprintf("%s/operations/op%d", parent, s.issued)
}
