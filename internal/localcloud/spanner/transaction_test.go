package spanner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	gcp "cloud.google.com/go/spanner"
	apiv1 "cloud.google.com/go/spanner/apiv1"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
)

const counterTable = `CREATE TABLE Counters (Name STRING(MAX) NOT NULL, N INT64 NOT NULL) PRIMARY KEY (Name)`

func setCounter(name string, n int64) *gcp.Mutation {
	return gcp.InsertOrUpdate("Counters", []string{"Name", "N"}, []any{name, n})
}

func counter(ctx context.Context, reader interface {
	ReadRow(ctx context.Context, table string, key gcp.Key, columns []string) (*gcp.Row, error)
}, name string,
) (n int64, err error) {
	row, err := reader.ReadRow(ctx, "Counters", gcp.Key{name}, []string{"N"})
	if err != nil {
		return 0, err
	}
	return n, row.Column(0, &n)
}

// Each increment reads and then writes; if one were lost, the sum would show it.
func TestReadWriteTransactionsLoseNoUpdate(t *testing.T) {
	const workers, increments = 8, 25
	tests := map[string]func(ctx context.Context, tx *gcp.ReadWriteTransaction) (int64, error){
		"read": func(ctx context.Context, tx *gcp.ReadWriteTransaction) (int64, error) { return counter(ctx, tx, "a") },
		"query": func(ctx context.Context, tx *gcp.ReadWriteTransaction) (n int64, err error) {
			err = tx.Query(ctx, gcp.Statement{SQL: "SELECT N FROM Counters WHERE Name = @n", Params: map[string]any{"n": "a"}}).
				Do(func(row *gcp.Row) error { return row.Column(0, &n) })
			return n, err
		},
	}
	for name, read := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t, counterTable)
			if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("a", 0)}); err != nil {
				t.Fatal(err)
			}
			group, ctx := errgroup.WithContext(t.Context())
			for range workers {
				group.Go(func() error {
					for range increments {
						_, err := b.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
							n, err := read(ctx, tx)
							if err != nil {
								return err
							}
							return tx.BufferWrite([]*gcp.Mutation{setCounter("a", n+1)})
						})
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if n, err := counter(t.Context(), b.client.Single(), "a"); err != nil || n != workers*increments {
				t.Errorf("counter = %d, %v, want %d", n, err, workers*increments)
			}
		})
	}
}

// A row that was not there when the transaction looked is a read as well.
func TestInsertIntoReadRangeAborts(t *testing.T) {
	b := setup(t, counterTable)
	attempts := 0
	_, err := b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		attempts++
		found := int64(0)
		if err := tx.Read(ctx, "Counters", gcp.KeyRange{Start: gcp.Key{"a"}, End: gcp.Key{"c"}}, []string{"Name"}).
			Do(func(*gcp.Row) error { found++; return nil }); err != nil {
			return err
		}
		if attempts == 1 {
			//nolint:contextcheck // another client's commit: the library refuses one inside the transaction's context
			if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("b", 1)}); err != nil {
				return err
			}
		}
		return tx.BufferWrite([]*gcp.Mutation{setCounter("sum", found)})
	})
	if err != nil || attempts != 2 {
		t.Fatalf("transaction = %v after %d attempts, want success after 2", err, attempts)
	}
	if n, err := counter(t.Context(), b.client.Single(), "sum"); err != nil || n != 1 {
		t.Errorf("sum = %d, %v, want 1", n, err)
	}
}

// The failing function's writes leave no trace, and its error comes through.
func TestRollbackLeavesNothing(t *testing.T) {
	b := setup(t, counterTable)
	boom := errors.New("boom")
	_, err := b.client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		if _, err := counter(ctx, tx, "a"); gcp.ErrCode(err) != codes.NotFound {
			return fmt.Errorf("read of a missing row = %w, want NotFound", err)
		}
		if err := tx.BufferWrite([]*gcp.Mutation{setCounter("a", 1)}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("transaction = %v, want %v", err, boom)
	}
	if _, err := counter(t.Context(), b.client.Single(), "a"); gcp.ErrCode(err) != codes.NotFound {
		t.Errorf("read = %v, want NotFound", err)
	}
}

func TestReadOnlyTransactionKeepsItsSnapshot(t *testing.T) {
	b := setup(t, counterTable)
	if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("a", 1)}); err != nil {
		t.Fatal(err)
	}
	tx := b.client.ReadOnlyTransaction()
	defer tx.Close()
	for range 2 {
		if n, err := counter(t.Context(), tx, "a"); err != nil || n != 1 {
			t.Errorf("counter in the snapshot = %d, %v, want 1", n, err)
		}
		if _, err := b.client.Apply(t.Context(), []*gcp.Mutation{setCounter("a", 2)}); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := tx.Timestamp(); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("read timestamp = %v, %v", at, err)
	}
	if n, err := counter(t.Context(), b.client.Single(), "a"); err != nil || n != 2 {
		t.Errorf("counter now = %d, %v, want 2", n, err)
	}
}

// raw is the generated client, for what the official one never does by itself.
func raw(t *testing.T, b *bundle) (*apiv1.Client, *spannerpb.Session) {
	t.Helper()
	client, err := apiv1.NewClient(t.Context(), b.options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	session, err := client.CreateSession(t.Context(), &spannerpb.CreateSessionRequest{Database: databaseName})
	if err != nil {
		t.Fatal(err)
	}
	return client, session
}

var readWrite = &spannerpb.TransactionOptions{Mode: &spannerpb.TransactionOptions_ReadWrite_{ReadWrite: &spannerpb.TransactionOptions_ReadWrite{}}}

// A client that read rows in a transaction and died holds up nobody.
func TestVanishedClientBlocksNobody(t *testing.T) {
	b := setup(t, counterTable)
	client, session := raw(t, b)
	tx, err := client.BeginTransaction(t.Context(), &spannerpb.BeginTransactionRequest{Session: session.GetName(), Options: readWrite})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(t.Context(), &spannerpb.ReadRequest{
		Session: session.GetName(), Table: "Counters", Columns: []string{"N"}, KeySet: &spannerpb.KeySet{All: true},
		Transaction: &spannerpb.TransactionSelector{Selector: &spannerpb.TransactionSelector_Id{Id: tx.GetId()}},
	}); err != nil {
		t.Fatal(err)
	}
	_ = client.Close() // gone, without a rollback

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := b.client.ReadWriteTransaction(ctx, func(ctx context.Context, tx *gcp.ReadWriteTransaction) error {
		if _, err := counter(ctx, tx, "a"); err != nil && gcp.ErrCode(err) != codes.NotFound {
			return err
		}
		return tx.BufferWrite([]*gcp.Mutation{setCounter("a", 1)})
	}); err != nil {
		t.Errorf("transaction beside an abandoned one: %v", err)
	}
}

// A commit that is asked for again, its answer lost, is not done again.
func TestCommitReplayAnswersTheSame(t *testing.T) {
	b := setup(t, counterTable)
	client, session := raw(t, b)
	tx, err := client.BeginTransaction(t.Context(), &spannerpb.BeginTransactionRequest{Session: session.GetName(), Options: readWrite})
	if err != nil {
		t.Fatal(err)
	}
	commit := &spannerpb.CommitRequest{
		Session: session.GetName(), Transaction: &spannerpb.CommitRequest_TransactionId{TransactionId: tx.GetId()},
	}
	first, err := client.Commit(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.Commit(t.Context(), commit)
	if err != nil || !again.GetCommitTimestamp().AsTime().Equal(first.GetCommitTimestamp().AsTime()) {
		t.Errorf("second commit = %v, %v, want the first one's answer %v", again, err, first)
	}
	commit.Transaction = &spannerpb.CommitRequest_TransactionId{TransactionId: []byte("nobody's")}
	if _, err := client.Commit(t.Context(), commit); gcp.ErrCode(gcp.ToSpannerError(err)) != codes.NotFound {
		t.Errorf("commit of an unknown transaction = %v, want NotFound", err)
	}
}

// 64 writers on different rows: all rows arrive, and quickly.
func TestParallelCommitters(t *testing.T) {
	const each = 50
	b := setup(t)
	start := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			for i := range each {
				row := result{RunId: "r", Shard: int64(w), ItemId: fmt.Sprintf("%d-%d", w, i), Status: "OK"}
				if _, err := b.client.Apply(ctx, []*gcp.Mutation{row.mutation()}, gcp.ApplyAtLeastOnce()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%d commits took %v", writers*each, took)
	}
	var n int64
	if err := b.client.Single().Query(t.Context(), gcp.NewStatement("SELECT COUNT(*) FROM Results")).
		Do(func(row *gcp.Row) error { return row.Column(0, &n) }); err != nil || n != writers*each {
		t.Errorf("rows = %d, %v, want %d", n, err, writers*each)
	}
}
