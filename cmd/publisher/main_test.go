package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/worker"
)

const databaseName = "projects/demo/instances/spotbatch/databases/spotbatch"

// settings are the configuration of all tests.
var settings = []string{
	"SPOTBATCH_PROJECT=demo", "SPOTBATCH_PUBSUB_TOPIC=items", "SPOTBATCH_PUBSUB_SUBSCRIPTION=items-workers",
	"SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC=items-dead", "SPOTBATCH_SPANNER_DATABASE=" + databaseName,
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"publisher": main})
}

// TestScripts runs each script with a localcloud of its own. A script has the
// commands of testscript and:
//
//	store RUN ITEM OK|FAILED TEXT   stores a result as a worker does
//	exits CODE PROGRAM ARG...       is exec, and checks the exit code
//	fault METHOD [CODE]             breaks an RPC from now on; without a code it hangs
//	mend                            ends all faults
//	terminate                       sends SIGTERM to the programs in the background
//	await RUN STATE                 waits until the run has the state and its row was updated later
//	object BUCKET NAME FILE         puts a file into a bucket
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			server, err := localcloud.Start(context.Background(), localcloud.Config{
				PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", GCSAddr: "127.0.0.1:0",
			})
			if err != nil {
				return err
			}
			env.Defer(server.Close)
			env.Values[serverKey{}] = server
			env.Vars = append(env.Vars, server.Env()...)
			env.Vars = append(env.Vars, settings...)
			env.Vars = append(env.Vars, "XDG_CACHE_HOME="+filepath.Join(env.WorkDir, "cache"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"store": store, "fault": breakRPC, "mend": mend, "await": await, "object": object, "exits": exits, "terminate": terminate,
		},
	})
}

type serverKey struct{}

func serverOf(ts *testscript.TestScript) *localcloud.Server {
	return ts.Value(serverKey{}).(*localcloud.Server)
}

func openDatabase(ts *testscript.TestScript) *sink.Database {
	db, err := sink.Open(context.Background(), databaseName, slog.New(slog.DiscardHandler), localcloudtest.SpannerOptions(serverOf(ts))...)
	ts.Check(err)
	ts.Defer(db.Close)
	return db
}

func store(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: store RUN ITEM OK|FAILED TEXT")
	}
	result := worker.Result{
		Key: item.Key{RunID: args[0], ItemID: args[1]}, Status: worker.Status(args[2]), ModelVersion: "m1", Worker: "w1",
	}
	if result.Status == worker.StatusOK {
		result.Output = []byte(args[3])
	} else {
		result.Class, result.Message = worker.ClassItemError, args[3]
	}
	ts.Check(errors.Join(openDatabase(ts).Store().Commit(context.Background(), []worker.Result{result})...))
}

func breakRPC(ts *testscript.TestScript, _ bool, args []string) {
	rule := fault.Rule{Method: args[0], BlackHole: len(args) == 1}
	if len(args) == 2 {
		ts.Check(rule.Code.UnmarshalJSON([]byte(`"` + args[1] + `"`)))
	}
	if !rule.BlackHole && rule.Code == codes.OK {
		ts.Fatalf("fault with code OK")
	}
	serverOf(ts).Faults().Add(rule)
}

func mend(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).Faults().Clear() }

func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	runs := openDatabase(ts).Runs()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		run, err := runs.Get(ctx, args[0])
		if err == nil && run.State == publish.State(args[1]) && run.UpdatedAt.Sub(run.CreatedAt) > time.Second {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			ts.Fatalf("run %s is %+v (%v), want it %s", args[0], run, err, args[1])
		}
	}
}

func object(ts *testscript.TestScript, _ bool, args []string) {
	client, err := storage.NewClient(context.Background(), localcloudtest.StorageOptions(serverOf(ts))...)
	ts.Check(err)
	defer client.Close()
	newBucket(ts, client, args[0])
	w := client.Bucket(args[0]).Object(args[1]).NewWriter(context.Background())
	_, err = w.Write([]byte(ts.ReadFile(args[2])))
	ts.Check(errors.Join(err, w.Close()))
}

func newBucket(ts *testscript.TestScript, client *storage.Client, name string) {
	bucket := client.Bucket(name)
	if _, err := bucket.Attrs(context.Background()); errors.Is(err, storage.ErrBucketNotExist) {
		ts.Check(bucket.Create(context.Background(), "demo", nil))
	}
}
