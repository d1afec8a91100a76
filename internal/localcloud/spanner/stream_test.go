package spanner_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/google/go-cmp/cmp"
)

// A stream that broke goes on where its token says, at the moment at which it began.
func TestStreamResumes(t *testing.T) {
	const n = 2000
	b := setup(t, everythingTable)
	var mutations []*gcp.Mutation
	for i := range n {
		mutations = append(mutations, gcp.Insert("Everything", []string{"Id", "Big"}, []any{i, strings.Repeat("x", 2000)}))
	}
	if _, err := b.client.Apply(t.Context(), mutations); err != nil {
		t.Fatal(err)
	}
	client, session := raw(t, b)

	type stream interface {
		Recv() (*spannerpb.PartialResultSet, error)
	}
	tests := map[string]func(token []byte) (stream, error){
		"read": func(token []byte) (stream, error) {
			return client.StreamingRead(t.Context(), &spannerpb.ReadRequest{
				Session: session.GetName(), Table: "Everything", Columns: []string{"Id", "Big"}, KeySet: &spannerpb.KeySet{All: true}, ResumeToken: token,
			})
		},
		"query": func(token []byte) (stream, error) {
			return client.ExecuteStreamingSql(t.Context(), &spannerpb.ExecuteSqlRequest{
				Session: session.GetName(), Sql: "SELECT Id, Big FROM Everything ORDER BY Big, Id DESC", ResumeToken: token,
			})
		},
	}
	for name, open := range tests {
		t.Run(name, func(t *testing.T) {
			values := func(token []byte, messages int) (got []string, last []byte) {
				t.Helper()
				s, err := open(token)
				if err != nil {
					t.Fatal(err)
				}
				for range messages {
					part, err := s.Recv()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					last = part.GetResumeToken()
					for i := 0; i < len(part.GetValues()); i += 2 {
						got = append(got, part.GetValues()[i].GetStringValue())
					}
				}
				return got, last
			}
			whole, _ := values(nil, 1000)
			if len(whole) != n {
				t.Fatalf("the stream had %d rows, want %d", len(whole), n)
			}
			first, token := values(nil, 2)
			if len(first) == 0 || len(first) >= n {
				t.Fatalf("two messages hold %d rows of %d: the test proves nothing", len(first), n)
			}
			if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{gcp.Delete("Everything", gcp.AllKeys())}); err != nil {
				t.Fatal(err)
			}
			rest, _ := values(token, 1000)
			if diff := cmp.Diff(whole, append(first, rest...)); diff != "" {
				t.Errorf("rows of the resumed stream (-want +got):\n%s", diff)
			}
			if _, err := b.client.Apply(t.Context(), mutations); err != nil {
				t.Fatal(err)
			}
		})
	}
}
