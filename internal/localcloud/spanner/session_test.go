package spanner_test

import (
	"strings"
	"testing"

	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	apiv1 "cloud.google.com/go/spanner/apiv1"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
)

// sessionNames lists the sessions of a database, in pages of two.
func sessionNames(t *testing.T, client *apiv1.Client, database string) []string {
	t.Helper()
	names := []string{}
	for session, err := range client.ListSessions(t.Context(), &spannerpb.ListSessionsRequest{Database: database, PageSize: 2}).All() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, session.GetName())
	}
	return names
}

func TestSessions(t *testing.T) {
	b := setup(t)
	b.createDatabase(t, "second", spannerschema.Statements())
	client, session := raw(t, b)
	ctx := t.Context()

	got, err := client.GetSession(ctx, &spannerpb.GetSessionRequest{Name: session.GetName()})
	if err != nil || got.GetName() != session.GetName() || !got.GetCreateTime().AsTime().Equal(session.GetCreateTime().AsTime()) {
		t.Errorf("GetSession = %v, %v, want %v", got, err, session)
	}
	batch, err := client.BatchCreateSessions(ctx, &spannerpb.BatchCreateSessionsRequest{
		Database: databaseName, SessionCount: 4, SessionTemplate: &spannerpb.Session{Labels: map[string]string{"env": "test"}},
	})
	if err != nil || len(batch.GetSession()) != 4 || batch.GetSession()[0].GetLabels()["env"] != "test" {
		t.Fatalf("batch = %v, %v", batch, err)
	}
	want := []string{session.GetName()}
	for _, s := range batch.GetSession() {
		want = append(want, s.GetName())
	}
	if diff := cmp.Diff(want, sessionNames(t, client, databaseName)); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if names := sessionNames(t, client, instanceName+"/databases/second"); len(names) != 0 {
		t.Errorf("sessions of another database = %v", names)
	}

	if err := client.DeleteSession(ctx, &spannerpb.DeleteSessionRequest{Name: session.GetName()}); err != nil {
		t.Fatal(err)
	}
	_, err = client.GetSession(ctx, &spannerpb.GetSessionRequest{Name: session.GetName()})
	wantCode(t, "GetSession of a deleted session", err, codes.NotFound)
	if !strings.Contains(err.Error(), "Session not found") {
		t.Errorf("error %q lacks the words that clients look for", err)
	}
	_, err = client.Read(ctx, &spannerpb.ReadRequest{Session: session.GetName(), Table: "Runs", Columns: []string{"RunId"}, KeySet: &spannerpb.KeySet{All: true}})
	wantCode(t, "Read in a deleted session", err, codes.NotFound)
	if diff := cmp.Diff(want[1:], sessionNames(t, client, databaseName)); diff != "" {
		t.Errorf("sessions after the deletion (-want +got):\n%s", diff)
	}

	for what, req := range map[string]*spannerpb.BatchCreateSessionsRequest{
		"none":        {Database: databaseName},
		"multiplexed": {Database: databaseName, SessionCount: 1, SessionTemplate: &spannerpb.Session{Multiplexed: true}},
	} {
		_, err := client.BatchCreateSessions(ctx, req)
		wantCode(t, "BatchCreateSessions: "+what, err, codes.InvalidArgument)
	}
	_, err = client.CreateSession(ctx, &spannerpb.CreateSessionRequest{Database: instanceName + "/databases/nope"})
	wantCode(t, "CreateSession in no database", err, codes.NotFound)
	_, err = client.GetSession(ctx, &spannerpb.GetSessionRequest{Name: "nonsense"})
	wantCode(t, "GetSession of a malformed name", err, codes.InvalidArgument)
}

// A multiplexed session carries everything, at the same time, and is neither listed nor deleted.
func TestMultiplexedSession(t *testing.T) {
	b := setup(t, counterTable)
	client, _ := raw(t, b)
	ctx := t.Context()
	session, err := client.CreateSession(ctx, &spannerpb.CreateSessionRequest{Database: databaseName, Session: &spannerpb.Session{Multiplexed: true}})
	if err != nil || !session.GetMultiplexed() {
		t.Fatalf("multiplexed session = %v, %v", session, err)
	}
	for _, name := range sessionNames(t, client, databaseName) {
		if name == session.GetName() {
			t.Error("the multiplexed session is listed")
		}
	}
	wantCode(t, "DeleteSession of a multiplexed session", client.DeleteSession(ctx, &spannerpb.DeleteSessionRequest{Name: session.GetName()}), codes.InvalidArgument)

	begin := func() []byte {
		t.Helper()
		tx, err := client.BeginTransaction(ctx, &spannerpb.BeginTransactionRequest{Session: session.GetName(), Options: readWrite})
		if err != nil {
			t.Fatal(err)
		}
		return tx.GetId()
	}
	first, second := begin(), begin()
	for _, id := range [][]byte{second, first} {
		if _, err := client.Commit(ctx, &spannerpb.CommitRequest{Session: session.GetName(), Transaction: &spannerpb.CommitRequest_TransactionId{TransactionId: id}}); err != nil {
			t.Errorf("commit of one of two transactions in the session: %v", err)
		}
	}
}

// Lists come in pages of the size that the client asks for.
func TestPagesOfInstancesAndDatabases(t *testing.T) {
	b := serve(t)
	for _, id := range []string{"i1", "i2", "spotbatch"} {
		b.createInstance(t, id)
	}
	for _, id := range []string{"d1", "d2", "d3"} {
		b.createDatabase(t, id, nil)
	}
	var names []string
	for instance, err := range b.instances.ListInstances(t.Context(), &instancepb.ListInstancesRequest{Parent: project, PageSize: 2}).All() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(instance.GetName(), project+"/instances/"))
	}
	for db, err := range b.databases.ListDatabases(t.Context(), &databasepb.ListDatabasesRequest{Parent: instanceName, PageSize: 1}).All() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(db.GetName(), instanceName+"/databases/"))
	}
	if diff := cmp.Diff([]string{"i1", "i2", "spotbatch", "d1", "d2", "d3"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
