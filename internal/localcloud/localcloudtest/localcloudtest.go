// Package localcloudtest gives tests a localcloud of their own, with explicit client options and no
// process-wide environment, so that tests can run side by side.
package localcloudtest

import (
	"context"
	"testing"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
	"github.com/spotbatch/spotbatch/internal/localcloud"
)

// Project is a project ID for tests. Any other works as well.
const Project = "demo"

// Start runs a localcloud on free ports and closes it when the test ends.
func Start(t testing.TB) *localcloud.Server {
	t.Helper()
	// Cleanup must still find the server alive: the test's own context ends before.
	server, err := localcloud.Start(context.WithoutCancel(t.Context()), localcloud.Config{
		PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", GCSAddr: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatalf("start localcloud: %v", err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := server.Wait(); err != nil {
			t.Errorf("localcloud: %v", err)
		}
	})
	return server
}

// PubSubOptions are the client options for Pub/Sub, admin clients included.
func PubSubOptions(s *localcloud.Server) []option.ClientOption {
	return grpcOptions(s.Addr(localcloud.PubSub))
}

// SpannerOptions are the client options for Spanner, admin clients included.
func SpannerOptions(s *localcloud.Server) []option.ClientOption {
	return grpcOptions(s.Addr(localcloud.Spanner))
}

// StorageOptions are the client options for Cloud Storage.
func StorageOptions(s *localcloud.Server) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("http://" + s.Addr(localcloud.GCS) + "/storage/v1/"),
		option.WithoutAuthentication(),
	}
}

func grpcOptions(addr string) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(addr),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// IgnoreClients are goleak options for what the official clients leave behind, whatever their caller does.
func IgnoreClients() []goleak.Option {
	return []goleak.Option{
		// Started when the library is loaded, and never stopped.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// The Spanner client asks the metadata server for its region unless SPANNER_EMULATOR_HOST is set, and
		// leaves the connection open.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}

// Database makes an instance and, in it, a database with spotbatch's tables and the extra statements. It
// returns the database's full name.
func Database(t testing.TB, s *localcloud.Server, extra ...string) string {
	t.Helper()
	ctx := t.Context()
	instances, err := instance.NewInstanceAdminClient(ctx, SpannerOptions(s)...)
	if err != nil {
		t.Fatalf("open instance admin: %v", err)
	}
	defer instances.Close() //nolint:errcheck // a test's client
	created, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: "projects/" + Project, InstanceId: "spotbatch",
		Instance: &instancepb.Instance{DisplayName: "spotbatch", NodeCount: 1},
	})
	if err != nil {
		t.Fatalf("create instance: %v", err)
	}
	where, err := created.Wait(ctx)
	if err != nil {
		t.Fatalf("create instance: %v", err)
	}
	databases, err := database.NewDatabaseAdminClient(ctx, SpannerOptions(s)...)
	if err != nil {
		t.Fatalf("open database admin: %v", err)
	}
	defer databases.Close() //nolint:errcheck // a test's client
	made, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: where.GetName(), CreateStatement: "CREATE DATABASE `spotbatch`",
		ExtraStatements: append(spannerschema.Statements(), extra...),
	})
	if err != nil {
		t.Fatalf("create database: %v", err)
	}
	db, err := made.Wait(ctx)
	if err != nil {
		t.Fatalf("create database: %v", err)
	}
	return db.GetName()
}
