package spanner_test

import (
	"testing"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

// Clients other than Go's read how long to wait from a trailer, and an error of a stream only after its header.
func TestAbortedTellsHowLongToWaitInATrailer(t *testing.T) {
	server := localcloudtest.Start(t)
	conn, err := grpc.NewClient(server.Addr(localcloud.Spanner), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := spannerpb.NewSpannerClient(conn)
	session, err := client.CreateSession(t.Context(), &spannerpb.CreateSessionRequest{Database: localcloudtest.Database(t, server)})
	if err != nil {
		t.Fatal(err)
	}
	server.Faults().Add(fault.Rule{Code: codes.Aborted})
	calls := map[string]func(...grpc.CallOption) error{
		"unary": func(options ...grpc.CallOption) error {
			_, err := client.Commit(t.Context(), &spannerpb.CommitRequest{Session: session.GetName()}, options...)
			return err
		},
		"stream": func(options ...grpc.CallOption) error {
			stream, err := client.ExecuteStreamingSql(t.Context(), &spannerpb.ExecuteSqlRequest{Session: session.GetName(), Sql: "SELECT 1"}, options...)
			if err != nil {
				return err
			}
			if header, err := stream.Header(); err != nil || header == nil {
				t.Errorf("header = %v, %v: want one before the error", header, err)
			}
			_, err = stream.Recv()
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var trailer metadata.MD
			err := call(grpc.Trailer(&trailer))
			if status.Code(err) != codes.Aborted || len(status.Convert(err).Details()) != 1 {
				t.Errorf("error = %v with %v, want ABORTED with one detail", err, status.Convert(err).Details())
			}
			var info errdetails.RetryInfo
			encoded := trailer.Get("google.rpc.retryinfo-bin")
			if len(encoded) != 1 || proto.Unmarshal([]byte(encoded[0]), &info) != nil || info.GetRetryDelay().AsDuration() <= 0 {
				t.Errorf("trailer = %v, want one RetryInfo with a delay", trailer)
			}
		})
	}
}
