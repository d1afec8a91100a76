package spanner_test

import (
	"context"
	"net"
	"testing"

	gcp "cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
	"github.com/spotbatch/spotbatch/internal/localcloud/guard"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner"
)

const (
	project      = "projects/demo"
	instanceName = project + "/instances/spotbatch"
	databaseName = instanceName + "/databases/spotbatch"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The client libraries start this worker when they are loaded, and never stop it.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// The Spanner client asks the metadata server for its region, and leaves the connection open.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// bundle is a running service with its clients.
type bundle struct {
	options   []option.ClientOption
	instances *instance.InstanceAdminClient
	databases *database.DatabaseAdminClient
	client    *gcp.Client
}

// setup serves a new Spanner whose database holds the project's schema and the extra tables.
func setup(t testing.TB, extra ...string) *bundle {
	t.Helper()
	b := serve(t)
	b.createInstance(t, "spotbatch")
	b.createDatabase(t, "spotbatch", append(spannerschema.Statements(), extra...))
	b.client = b.open(t, databaseName)
	return b
}

// serve starts a Spanner without any instance.
func serve(t testing.TB) *bundle {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(spanner.ServerOptions(), grpc.ChainUnaryInterceptor(guard.Unary), grpc.ChainStreamInterceptor(guard.Stream))...)
	spanner.New(nil).Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})

	b := &bundle{options: []option.ClientOption{
		option.WithEndpoint(listener.Addr().String()),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}}
	ctx := context.Background()
	if b.instances, err = instance.NewInstanceAdminClient(ctx, b.options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.instances.Close() })
	if b.databases, err = database.NewDatabaseAdminClient(ctx, b.options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.databases.Close() })
	return b
}

func (b *bundle) createInstance(t testing.TB, id string) {
	t.Helper()
	op, err := b.instances.CreateInstance(context.Background(), &instancepb.CreateInstanceRequest{
		Parent: project, InstanceId: id,
		Instance: &instancepb.Instance{DisplayName: id, Config: project + "/instanceConfigs/emulator-config", NodeCount: 1},
	})
	if err != nil {
		t.Fatalf("create instance: %v", err)
	}
	if _, err := op.Wait(context.Background()); err != nil {
		t.Fatalf("wait for instance: %v", err)
	}
}

func (b *bundle) createDatabase(t testing.TB, id string, ddl []string) {
	t.Helper()
	op, err := b.databases.CreateDatabase(context.Background(), &databasepb.CreateDatabaseRequest{
		Parent: instanceName, CreateStatement: "CREATE DATABASE `" + id + "`", ExtraStatements: ddl,
	})
	if err != nil {
		t.Fatalf("create database: %v", err)
	}
	if _, err := op.Wait(context.Background()); err != nil {
		t.Fatalf("wait for database: %v", err)
	}
}

// open makes a client that leaves its own metrics at home.
func (b *bundle) open(t testing.TB, name string) *gcp.Client {
	t.Helper()
	client, err := gcp.NewClientWithConfig(context.Background(), name, gcp.ClientConfig{DisableNativeMetrics: true}, b.options...)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	t.Cleanup(client.Close)
	return client
}
