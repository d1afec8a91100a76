package spanner

import (
	"context"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

// databaseAPI is the database admin service.
type databaseAPI struct {
	databasepb.UnimplementedDatabaseAdminServer
	service *Service
}

func (a *databaseAPI) CreateDatabase(_ context.Context, req *databasepb.CreateDatabaseRequest) (*longrunningpb.Operation, error) {
	if dialect := req.GetDatabaseDialect(); dialect == databasepb.DatabaseDialect_POSTGRESQL {
		return nil, status.Error(codes.Unimplemented, "localcloud does not support the PostgreSQL dialect.")
	}
	id, err := createdID(req.GetCreateStatement())
	if err != nil {
		return nil, err
	}
	engine := a.service.newEngine()
	if err := engine.ApplyDDL(req.GetExtraStatements()); err != nil {
		return nil, err // nothing of the database stays, as in the service
	}
	name := req.GetParent() + "/databases/" + id
	s := a.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.instances[req.GetParent()]; !ok {
		return nil, notFound("Instance", instanceType, req.GetParent())
	}
	if _, ok := s.databases[name]; ok {
		return nil, alreadyExists("Database", name)
	}
	db := newDatabase(name, engine)
	s.databases[name] = db
	return s.done(name, &databasepb.CreateDatabaseMetadata{Database: name}, db.proto(), nil)
}

// createdID takes the ID out of a CREATE DATABASE statement.
func createdID(statement string) (string, error) {
	fields := strings.Fields(statement)
	if len(fields) != 3 || !strings.EqualFold(fields[0], "CREATE") || !strings.EqualFold(fields[1], "DATABASE") {
		return "", status.Errorf(codes.InvalidArgument, "Create statement is not valid: %q. Use CREATE DATABASE `id`.", statement)
	}
	id := strings.Trim(fields[2], "`")
	if !databaseID.MatchString(id) {
		return "", status.Errorf(codes.InvalidArgument, "Database ID %q is not valid: use 2 to 30 of a-z, 0-9, _ and -, with a letter first.", id)
	}
	if strings.Contains(id, "-") && fields[2] == id {
		return "", status.Errorf(codes.InvalidArgument, "Database ID %q holds a hyphen: enclose it in backticks.", id)
	}
	return id, nil
}

func (a *databaseAPI) GetDatabase(_ context.Context, req *databasepb.GetDatabaseRequest) (*databasepb.Database, error) {
	db, err := a.service.database(req.GetName())
	if err != nil {
		return nil, err
	}
	return db.proto(), nil
}

func (a *databaseAPI) ListDatabases(_ context.Context, req *databasepb.ListDatabasesRequest) (*databasepb.ListDatabasesResponse, error) {
	a.service.mu.Lock()
	defer a.service.mu.Unlock()
	if _, ok := a.service.instances[req.GetParent()]; !ok {
		return nil, notFound("Instance", instanceType, req.GetParent())
	}
	var databases []*databasepb.Database
	for _, name := range slices.Sorted(maps.Keys(a.service.databases)) {
		if strings.HasPrefix(name, req.GetParent()+"/databases/") {
			databases = append(databases, a.service.databases[name].proto())
		}
	}
	resp := &databasepb.ListDatabasesResponse{}
	resp.Databases, resp.NextPageToken = page(databases, (*databasepb.Database).GetName, req.GetPageSize(), req.GetPageToken())
	return resp, nil
}

func (a *databaseAPI) UpdateDatabaseDdl(_ context.Context, req *databasepb.UpdateDatabaseDdlRequest) (*longrunningpb.Operation, error) {
	db, err := a.service.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	for _, text := range req.GetStatements() {
		if _, err := rows.ParseDDL(text); err != nil {
			return nil, err // at once; what fails later fails the operation
		}
	}
	failure := db.rows.ApplyDDL(req.GetStatements())
	s := a.service
	s.mu.Lock()
	defer s.mu.Unlock()
	metadata := &databasepb.UpdateDatabaseDdlMetadata{Database: db.name, Statements: req.GetStatements()}
	if failure == nil {
		for range req.GetStatements() {
			metadata.CommitTimestamps = append(metadata.CommitTimestamps, timestamppb.Now())
		}
	}
	return s.done(db.name, metadata, &emptypb.Empty{}, failure)
}

func (a *databaseAPI) GetDatabaseDdl(_ context.Context, req *databasepb.GetDatabaseDdlRequest) (*databasepb.GetDatabaseDdlResponse, error) {
	db, err := a.service.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	return &databasepb.GetDatabaseDdlResponse{Statements: db.rows.DDL()}, nil
}

func (a *databaseAPI) DropDatabase(_ context.Context, req *databasepb.DropDatabaseRequest) (*emptypb.Empty, error) {
	a.service.mu.Lock()
	defer a.service.mu.Unlock()
	if _, ok := a.service.databases[req.GetDatabase()]; !ok {
		return nil, notFound("Database", databaseType, req.GetDatabase())
	}
	delete(a.service.databases, req.GetDatabase())
	return &emptypb.Empty{}, nil
}
