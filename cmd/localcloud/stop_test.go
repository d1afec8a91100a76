package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// start runs a real localcloud on free ports and returns its environment.
func start(t *testing.T) (cmd *exec.Cmd, env map[string]string) {
	t.Helper()
	cmd = exec.Command("localcloud", "--pubsub", "127.0.0.1:0", "--spanner", "127.0.0.1:0", "--gcs", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector rests for a second at exit
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // for tests that fail before it ends
	env = map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		env[name] = value
	}
	if len(env) != 4 {
		t.Fatalf("environment = %v", env)
	}
	return cmd, env
}

// ctrl-C with everything open that keeps other servers up: a stream, a call in a black hole, a page that polls.
func TestInterruptEndsOpenConnectionsAtOnce(t *testing.T) {
	cmd, env := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := pubsub.NewClient(ctx, "demo", option.WithEndpoint(env["PUBSUB_EMULATOR_HOST"]), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const topic, subscription = "projects/demo/topics/items", "projects/demo/subscriptions/workers"
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic}); err != nil {
		t.Fatal(err)
	}
	stream, err := client.SubscriptionAdminClient.StreamingPull(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pubsubpb.StreamingPullRequest{Subscription: subscription, StreamAckDeadlineSeconds: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	state := "http://" + env["LOCALCLOUD_ADMIN_HOST"]
	get(t, state+"/state") // its connection stays open, as a browser's does
	resp, err := http.Post(state+"/faults", "application/json", strings.NewReader(`{"service":"storage","black_hole":true}`))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("add fault = %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	lost := make(chan error, 1)
	go func() {
		resp, err := http.Get(env["STORAGE_EMULATOR_HOST"] + "/storage/v1/b?project=demo")
		if err == nil {
			_ = resp.Body.Close()
		}
		lost <- err
	}()
	for !strings.Contains(get(t, state+"/faults"), `"struck": 1`) { // until the call has fallen in
		if ctx.Err() != nil {
			t.Fatal("the call did not arrive")
		}
	}

	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("localcloud = %v, want exit 0", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v to end", took)
	}
	if _, err := stream.Recv(); err == nil || ctx.Err() != nil {
		t.Errorf("the open stream = %v, context %v", err, ctx.Err())
	}
	if err := <-lost; err == nil {
		t.Error("the call in the black hole got an answer")
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
