package spanner

import (
	"testing"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func fuzzed(f *testing.F) (api *dataAPI, session string) {
	f.Helper()
	engine := rows.New(nil)
	if err := engine.ApplyDDL([]string{
		"CREATE TABLE T (K STRING(MAX) NOT NULL, I INT64, F FLOAT64, B BOOL, Y BYTES(MAX), C TIMESTAMP OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (K, I DESC)",
	}); err != nil {
		f.Fatal(err)
	}
	service := New(nil)
	const name = "projects/p/instances/i/databases/d"
	db := newDatabase(name, engine)
	service.databases[name] = db
	return &dataAPI{service: service}, db.addSession(nil).GetName()
}

func list(values ...string) *structpb.ListValue {
	l := &structpb.ListValue{}
	for _, value := range values {
		l.Values = append(l.Values, structpb.NewStringValue(value))
	}
	return l
}

var forWriting = &spannerpb.TransactionOptions{Mode: &spannerpb.TransactionOptions_ReadWrite_{ReadWrite: &spannerpb.TransactionOptions_ReadWrite{}}}

// acceptable fails the test for a code that the service would not answer to a bad request.
func acceptable(t *testing.T, err error) {
	t.Helper()
	switch code := status.Code(err); code {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Unimplemented, codes.OutOfRange, codes.Aborted:
	default:
		t.Errorf("code %v: %v", code, err)
	}
}

// FuzzCommit sends any commit that the wire could bring.
func FuzzCommit(f *testing.F) {
	api, session := fuzzed(f)
	write := &spannerpb.Mutation_Write{Table: "T", Columns: []string{"K", "I", "C"}, Values: []*structpb.ListValue{list("a", "1", commitTimestampPlaceholder)}}
	keys := &spannerpb.KeySet{Keys: []*structpb.ListValue{list("a", "1")}, Ranges: []*spannerpb.KeyRange{{
		StartKeyType: &spannerpb.KeyRange_StartOpen{StartOpen: list("a")}, EndKeyType: &spannerpb.KeyRange_EndClosed{EndClosed: list("b", "2")},
	}}}
	for _, mutation := range []*spannerpb.Mutation{
		{Operation: &spannerpb.Mutation_Insert{Insert: write}},
		{Operation: &spannerpb.Mutation_Update{Update: write}},
		{Operation: &spannerpb.Mutation_InsertOrUpdate{InsertOrUpdate: write}},
		{Operation: &spannerpb.Mutation_Replace{Replace: write}},
		{Operation: &spannerpb.Mutation_Delete_{Delete: &spannerpb.Mutation_Delete{Table: "T", KeySet: keys}}},
	} {
		data, err := proto.Marshal(mutation)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var mutation spannerpb.Mutation
		if proto.Unmarshal(data, &mutation) != nil {
			return
		}
		_, err := api.Commit(t.Context(), &spannerpb.CommitRequest{
			Session: session, Mutations: []*spannerpb.Mutation{&mutation, &mutation},
			Transaction: &spannerpb.CommitRequest_SingleUseTransaction{SingleUseTransaction: forWriting},
		})
		acceptable(t, err)
		_, err = api.Read(t.Context(), &spannerpb.ReadRequest{
			Session: session, Table: "T", Columns: []string{"K", "I", "F", "B", "Y", "C"}, KeySet: mutation.GetDelete().GetKeySet(), Limit: 10,
		})
		acceptable(t, err)
	})
}

// FuzzExecuteSQL sends any query request: text, parameters, types.
func FuzzExecuteSQL(f *testing.F) {
	api, session := fuzzed(f)
	for _, sql := range []string{
		"SELECT K, I FROM T WHERE K = @k AND I IN UNNEST(@i) LIMIT @n",
		"INSERT INTO T (K, I, C) VALUES (@k, 1, PENDING_COMMIT_TIMESTAMP()), ('b', @n, NULL)",
		"UPDATE T t SET t.F = I / 2, Y = CAST(K AS BYTES) WHERE K >= @k",
		"DELETE FROM T WHERE NOT I BETWEEN 1 AND 2 OR B",
	} {
		data, err := proto.Marshal(&spannerpb.ExecuteSqlRequest{
			Sql:        sql,
			Params:     &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("a"), "n": structpb.NewStringValue("1"), "i": structpb.NewListValue(list("1", "2"))}},
			ParamTypes: map[string]*spannerpb.Type{"i": {Code: spannerpb.TypeCode_ARRAY, ArrayElementType: &spannerpb.Type{Code: spannerpb.TypeCode_INT64}}},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var req spannerpb.ExecuteSqlRequest
		if proto.Unmarshal(data, &req) != nil {
			return
		}
		req.Session, req.Transaction = session, nil
		if parse.IsChange(req.GetSql()) {
			req.Transaction = &spannerpb.TransactionSelector{Selector: &spannerpb.TransactionSelector_Begin{Begin: forWriting}}
		}
		set, err := api.ExecuteSql(t.Context(), &req)
		acceptable(t, err)
		if _, err := proto.Marshal(set); err != nil {
			t.Errorf("the answer cannot be sent: %v", err)
		}
		if tx := set.GetMetadata().GetTransaction().GetId(); len(tx) > 0 {
			_, err := api.Commit(t.Context(), &spannerpb.CommitRequest{Session: session, Transaction: &spannerpb.CommitRequest_TransactionId{TransactionId: tx}})
			acceptable(t, err)
		}
	})
}
