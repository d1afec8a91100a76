package spanner

import (
	"testing"

	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

const countDDL = "CREATE TABLE Results (RunId STRING(64) NOT NULL, N INT64 NOT NULL, Status STRING(8)) PRIMARY KEY (RunId, N)"

func TestCountRows(t *testing.T) {
	s := New(nil)
	if _, err := (&instanceAPI{service: s}).CreateInstance(t.Context(), &instancepb.CreateInstanceRequest{Parent: "projects/p", InstanceId: "in"}); err != nil {
		t.Fatal(err)
	}
	for id, ddl := range map[string]string{
		"aa": countDDL, "bb": countDDL,
		"other-table":   "CREATE TABLE Other (RunId STRING(64)) PRIMARY KEY (RunId)",
		"other-columns": "CREATE TABLE Results (RunId STRING(64)) PRIMARY KEY (RunId)",
	} {
		_, err := (&databaseAPI{service: s}).CreateDatabase(t.Context(), &databasepb.CreateDatabaseRequest{
			Parent: "projects/p/instances/in", CreateStatement: "CREATE DATABASE `" + id + "`", ExtraStatements: []string{ddl},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	insert := func(database string, row ...any) {
		t.Helper()
		db, err := s.database("projects/p/instances/in/databases/" + database)
		if err != nil {
			t.Fatal(err)
		}
		insertRow(t, db, row)
	}
	for i := range int64(2000) { // more than one stretch of a scan
		insert("aa", "first", i, "OK")
		if i%4 == 0 {
			insert("aa", "second", i, nil)
		}
	}
	insert("bb", "first", int64(1), "FAILED")
	want := []Group{
		{Database: "projects/p/instances/in/databases/aa", Values: []string{"first", "OK"}, Rows: 2000},
		{Database: "projects/p/instances/in/databases/aa", Values: []string{"second", ""}, Rows: 500},
		{Database: "projects/p/instances/in/databases/bb", Values: []string{"first", "FAILED"}, Rows: 1},
	}
	by := []string{"RunId", "Status"}
	got, complete, err := s.CountRows(t.Context(), "Results", by, 10)
	if diff := cmp.Diff(want, got); diff != "" || !complete || err != nil {
		t.Errorf("complete %v, %v; groups (-want +got):\n%s", complete, err, diff)
	}
	for limit := range 3 {
		got, complete, err := s.CountRows(t.Context(), "Results", by, limit)
		if len(got) > limit || complete || err != nil {
			t.Errorf("with a limit of %d: %v, complete %v, %v", limit, got, complete, err)
		}
	}
}

func insertRow(t *testing.T, db *database, row []any) {
	t.Helper()
	table, err := db.rows.Table("Results")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.rows.Commit(rows.Commit{Mutations: []rows.Mutation{{Op: rows.Insert, Table: table, Columns: []int{0, 1, 2}, Rows: [][]any{row}}}}); err != nil {
		t.Fatalf("insert %v: %v", row, err)
	}
}
