package spanner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
)

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

func TestInstances(t *testing.T) {
	b := serve(t)
	ctx := t.Context()
	_, err := b.instances.GetInstance(ctx, &instancepb.GetInstanceRequest{Name: instanceName})
	wantCode(t, "GetInstance before there is one", err, codes.NotFound)
	b.createInstance(t, "spotbatch")
	b.createInstance(t, "other")
	_, err = b.instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: project, InstanceId: "spotbatch"})
	wantCode(t, "CreateInstance twice", err, codes.AlreadyExists)
	_, err = b.instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: project, InstanceId: "Bad Name"})
	wantCode(t, "CreateInstance with a bad ID", err, codes.InvalidArgument)

	var names []string
	for instance, err := range b.instances.ListInstances(ctx, &instancepb.ListInstancesRequest{Parent: project}).All() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, instance.GetName())
	}
	if diff := cmp.Diff([]string{project + "/instances/other", instanceName}, names); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}

	b.createDatabase(t, "spotbatch", nil)
	if err := b.instances.DeleteInstance(ctx, &instancepb.DeleteInstanceRequest{Name: instanceName}); err != nil {
		t.Fatal(err)
	}
	_, err = b.databases.GetDatabase(ctx, &databasepb.GetDatabaseRequest{Name: databaseName})
	wantCode(t, "GetDatabase of a deleted instance", err, codes.NotFound)
}

func TestInstanceConfigs(t *testing.T) {
	b := serve(t)
	for config, err := range b.instances.ListInstanceConfigs(t.Context(), &instancepb.ListInstanceConfigsRequest{Parent: project}).All() {
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.instances.GetInstanceConfig(t.Context(), &instancepb.GetInstanceConfigRequest{Name: config.GetName()})
		if err != nil || got.GetName() != config.GetName() {
			t.Errorf("GetInstanceConfig(%s) = %v, %v", config.GetName(), got, err)
		}
	}
}

func TestDatabasesAreKeptApart(t *testing.T) {
	b := setup(t)
	b.createDatabase(t, "second", spannerschema.Statements())
	b.write(t, result{RunId: "r", ItemId: "a", Status: "OK"})
	second := b.open(t, instanceName+"/databases/second")
	if got := items(t, second.Single().Read(t.Context(), "Results", gcp.AllKeys(), []string{"ItemId"})); len(got) != 0 {
		t.Errorf("the second database holds %v", got)
	}

	var names []string
	for db, err := range b.databases.ListDatabases(t.Context(), &databasepb.ListDatabasesRequest{Parent: instanceName}).All() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, db.GetName())
	}
	if diff := cmp.Diff([]string{instanceName + "/databases/second", databaseName}, names); diff != "" {
		t.Errorf("databases (-want +got):\n%s", diff)
	}

	if err := b.databases.DropDatabase(t.Context(), &databasepb.DropDatabaseRequest{Database: databaseName}); err != nil {
		t.Fatal(err)
	}
	_, err := b.client.Single().ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "a"}, []string{"ItemId"})
	wantCode(t, "read of a dropped database", err, codes.NotFound)
}

// Two databases of one name in two instances have nothing in common.
func TestInstancesAreKeptApart(t *testing.T) {
	b := setup(t)
	b.createInstance(t, "other")
	op, err := b.databases.CreateDatabase(t.Context(), &databasepb.CreateDatabaseRequest{
		Parent: project + "/instances/other", CreateStatement: "CREATE DATABASE spotbatch", ExtraStatements: spannerschema.Statements(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := b.open(t, project+"/instances/other/databases/spotbatch")
	if _, err := other.Apply(t.Context(), []*gcp.Mutation{result{RunId: "r", ItemId: "theirs", Status: "OK"}.mutation()}); err != nil {
		t.Fatal(err)
	}
	b.write(t, result{RunId: "r", ItemId: "ours", Status: "OK"})
	for client, want := range map[*gcp.Client]string{b.client: "ours", other: "theirs"} {
		if got := items(t, client.Single().Read(t.Context(), "Results", gcp.AllKeys(), []string{"ItemId"})); !slices.Equal(got, []string{want}) {
			t.Errorf("items = %v, want %s", got, want)
		}
	}
	if err := b.instances.DeleteInstance(t.Context(), &instancepb.DeleteInstanceRequest{Name: project + "/instances/other"}); err != nil {
		t.Fatal(err)
	}
	_, err = other.Single().ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "theirs"}, []string{"ItemId"})
	wantCode(t, "read in a deleted instance", err, codes.NotFound)
	_, err = b.client.Single().ReadRow(t.Context(), "Results", gcp.Key{"r", 0, "ours"}, []string{"ItemId"})
	wantCode(t, "read in the instance that is left", err, codes.OK)
}

func TestCreateDatabaseRefusals(t *testing.T) {
	b := setup(t)
	for name, test := range map[string]struct {
		parent, statement string
		ddl               []string
		want              codes.Code
	}{
		"exists":           {instanceName, "CREATE DATABASE spotbatch", nil, codes.AlreadyExists},
		"no instance":      {project + "/instances/nope", "CREATE DATABASE db", nil, codes.NotFound},
		"not a statement":  {instanceName, "DROP DATABASE db", nil, codes.InvalidArgument},
		"bad ID":           {instanceName, "CREATE DATABASE `Db`", nil, codes.InvalidArgument},
		"bad DDL":          {instanceName, "CREATE DATABASE db", []string{"CREATE TABLE"}, codes.InvalidArgument},
		"unsupported type": {instanceName, "CREATE DATABASE db", []string{"CREATE TABLE T (A NUMERIC) PRIMARY KEY (A)"}, codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.databases.CreateDatabase(t.Context(), &databasepb.CreateDatabaseRequest{Parent: test.parent, CreateStatement: test.statement, ExtraStatements: test.ddl})
			wantCode(t, "CreateDatabase", err, test.want)
		})
	}
	_, err := b.databases.GetDatabase(t.Context(), &databasepb.GetDatabaseRequest{Name: instanceName + "/databases/db"})
	wantCode(t, "GetDatabase after refused creations", err, codes.NotFound)
}

// ddl changes the schema and returns the operation's error.
func (b *bundle) ddl(ctx context.Context, statements ...string) error {
	op, err := b.databases.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: databaseName, Statements: statements})
	if err != nil {
		return err
	}
	return op.Wait(ctx)
}

func TestSchemaChanges(t *testing.T) {
	b := setup(t, counterTable)
	ctx := t.Context()
	if _, err := b.client.Apply(ctx, []*gcp.Mutation{setCounter("a", 1)}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		statement string
		want      codes.Code
	}{
		{"ALTER TABLE Counters ADD COLUMN Note STRING(MAX)", codes.OK},
		{"ALTER TABLE Counters ADD COLUMN Must INT64 NOT NULL", codes.Unimplemented},
		{"ALTER TABLE Counters DROP COLUMN Name", codes.InvalidArgument},
		{"ALTER TABLE Counters DROP COLUMN N", codes.OK},
		{"ALTER TABLE Counters ADD COLUMN N STRING(MAX)", codes.OK},
		{"CREATE INDEX ByNote ON Counters(Note)", codes.OK},
		{"CREATE UNIQUE INDEX Once ON Counters(Note)", codes.Unimplemented},
		{"ALTER TABLE Counters DROP COLUMN Note", codes.FailedPrecondition},
		{"DROP TABLE Counters", codes.FailedPrecondition},
		{"CREATE TABLE Counters (A INT64) PRIMARY KEY (A)", codes.FailedPrecondition},
		{"CREATE TABLE IF NOT EXISTS Counters (A INT64) PRIMARY KEY (A)", codes.OK},
		{"CREATE TABLE Child (A INT64) PRIMARY KEY (A), INTERLEAVE IN PARENT Runs", codes.Unimplemented},
		{"DROP INDEX ByNote", codes.OK},
		{"DROP TABLE Attempts", codes.OK},
		{"DROP TABLE Attempts", codes.NotFound},
		{"CREATE TABLE Long (A STRING(2621441)) PRIMARY KEY (A)", codes.InvalidArgument},
		{"CREATE TABLE Twice (A INT64) PRIMARY KEY (A, A)", codes.InvalidArgument},
		{"CREATE TABLE `1st` (A INT64) PRIMARY KEY (A)", codes.InvalidArgument},
		{"CREATE TABLE D (A INT64, B INT64 DEFAULT (1)) PRIMARY KEY (A)", codes.Unimplemented},
		{"CREATE TABLE F (A INT64, FOREIGN KEY (A) REFERENCES Runs (RunId)) PRIMARY KEY (A)", codes.Unimplemented},
		{"ALTER TABLE Runs ALTER COLUMN Dataset STRING(10)", codes.Unimplemented},
		{"CREATE VIEW V SQL SECURITY INVOKER AS SELECT 1", codes.Unimplemented},
		{"CREATE nonsense", codes.InvalidArgument},
		{"CREATE TABLE Deep (A INT64 AS " + strings.Repeat("(", 500_000) + ") PRIMARY KEY (A)", codes.InvalidArgument},
	} {
		wantCode(t, test.statement, b.ddl(ctx, test.statement), test.want)
	}
	// The row from before shows the columns of now.
	got, err := query(t, b, "SELECT * FROM Counters", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a <nil> <nil>"}, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	ddl, err := b.databases.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: databaseName})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range ddl.GetStatements() {
		if strings.Contains(statement, "Attempts") {
			t.Errorf("the DDL still has a dropped table: %s", statement)
		}
	}
	// What GetDatabaseDdl answers makes the same schema again.
	b.createDatabase(t, "copy", ddl.GetStatements())
	again, err := b.databases.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: instanceName + "/databases/copy"})
	if err != nil || !slices.Equal(again.GetStatements(), ddl.GetStatements()) {
		t.Errorf("DDL of the copy = %v, %v, want %v", again.GetStatements(), err, ddl.GetStatements())
	}
}
