package e2e_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spotbatch/spotbatch/test/cluster"
)

func TestBadItemsCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	data := write(t, "mixed.jsonl", []byte(`{"id":"good1","n":2}
{"id":"bad","text":"no number"}
{"id":"007","n":3}
{"id":9007199254740993,"n":4}
{"id":"killer","n":5,"die":true}
`))
	publisher(t, c, "publish", "--run", "r", data)
	startWorker(t, c)
	if s := waitStatus(t, c, complete); s.OK != 3 || s.Failed != 2 {
		t.Errorf("status: %+v, want 3 ok and 2 failed", s)
	}
	rows := export(t, c, "r")
	for id, want := range map[string]string{"good1": `{"square":4}`, "007": `{"square":9}`, "9007199254740993": `{"square":16}`} {
		if r := rows[id]; r.Status != "OK" || string(r.Output) != want || r.ModelVersion != "square-1" {
			t.Errorf("item %s: %+v, want OK %s", id, r, want)
		}
	}
	if r := rows["bad"]; r.ErrorClass != "item_error" || r.ErrorMessage != "the item has no number n" {
		t.Errorf("item bad: %+v", r)
	}
	if r := rows["killer"]; r.ErrorClass != "runner_crash" || !strings.Contains(r.ErrorMessage, "exit status 3") {
		t.Errorf("item killer: %+v", r)
	}
	publisher(t, c, "verify", "--run", "r", data)
}

// onnxLibrary returns the variable that names ONNX Runtime, or skips.
func onnxLibrary(t *testing.T) string {
	t.Helper()
	if lib := os.Getenv("ONNXRUNTIME_LIB"); lib != "" {
		return "ONNXRUNTIME_LIB=" + lib
	}
	libs, err := filepath.Glob(filepath.Join(root(), ".cache", "onnxruntime", "*", "libonnxruntime*"))
	if err == nil && len(libs) > 0 {
		return "ONNXRUNTIME_LIB=" + libs[0]
	}
	if os.Getenv("SPOTBATCH_TEST_REQUIRE_ONNX") == "1" {
		t.Fatal("ONNX Runtime is missing; `make onnxruntime` fetches it")
	}
	t.Skip("ONNX Runtime is missing; `make onnxruntime` fetches it")
	return ""
}

func TestCorruptImageAmongGoodOnes(t *testing.T) {
	t.Parallel()
	library := onnxLibrary(t)
	dir := t.TempDir()
	var good bytes.Buffer
	if err := png.Encode(&good, image.NewGray(image.Rect(0, 0, 28, 28))); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"a.png": good.Bytes(), "sub/b.png": good.Bytes(), "c.png": good.Bytes(),
		"cut.png": good.Bytes()[:40], "text.png": []byte("not an image"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := startCluster(t, cluster.Options{Config: "configs/local.yaml", Env: []string{library}})
	publisher(t, c, "publish", "--run", "r", dir)
	w := startWorker(t, c)
	waitStatus(t, c, complete)
	rows := export(t, c, "r")
	for _, id := range []string{"a.png", "sub/b.png", "c.png"} {
		if r := rows[id]; r.Status != "OK" || !bytes.Contains(r.Output, []byte(`"label"`)) {
			t.Errorf("item %s: %+v, want OK with a label", id, r)
		}
	}
	for _, id := range []string{"cut.png", "text.png"} {
		if r := rows[id]; r.Status != "FAILED" || r.ErrorClass != "invalid_input" || r.ErrorMessage == "" {
			t.Errorf("item %s: %+v, want FAILED invalid_input", id, r)
		}
	}
	publisher(t, c, "verify", "--run", "r", dir)
	if exit := stop(t, w, syscall.SIGTERM); exit.Code != 0 {
		t.Errorf("exit %d\n%s", exit.Code, w.Log())
	}
}

// A message that was not published by spotbatch is kept on the dead-letter
// topic, with the reason, and does not come back.
func TestForeignMessageGoesToTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, baseEnv()...)
	client := pubsubClient(t, c)
	p := client.Publisher("items")
	defer p.Stop()
	if _, err := p.Publish(ctx(t), &pubsub.Message{Data: []byte("hello"), Attributes: map[string]string{"who": "me"}}).Get(ctx(t)); err != nil {
		t.Fatal(err)
	}
	publisher(t, c, "publish", "--run", "r", numbers(t, 3))
	startWorker(t, c)
	waitStatus(t, c, complete)

	dead := deadSubscription(t, client)
	response, err := client.SubscriptionAdminClient.Pull(ctx(t), &pubsubpb.PullRequest{Subscription: dead, MaxMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(response.GetReceivedMessages()); n != 1 {
		t.Fatalf("%d messages on the dead-letter topic, want 1", n)
	}
	m := response.GetReceivedMessages()[0].GetMessage()
	reason := m.GetAttributes()["spotbatch_reason"]
	if string(m.GetData()) != "hello" || m.GetAttributes()["who"] != "me" || !strings.Contains(reason, "run_id is empty") {
		t.Errorf("dead letter: data %q, attributes %v", m.GetData(), m.GetAttributes())
	}
}

func pubsubClient(t *testing.T, c *cluster.Cluster) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(context.WithoutCancel(t.Context()), "demo", option.WithEndpoint(cloudHost(t, c, "PUBSUB_EMULATOR_HOST")),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// cloudHost is where a service of the localcloud listens.
func cloudHost(t *testing.T, c *cluster.Cluster, variable string) string {
	t.Helper()
	for _, entry := range c.Env() {
		if value, found := strings.CutPrefix(entry, variable+"="); found {
			return value
		}
	}
	t.Fatalf("localcloud does not say %s", variable)
	return ""
}

// deadSubscription finds the subscription that setup made for dead letters.
func deadSubscription(t *testing.T, client *pubsub.Client) string {
	t.Helper()
	subs := client.TopicAdminClient.ListTopicSubscriptions(ctx(t), &pubsubpb.ListTopicSubscriptionsRequest{Topic: "projects/demo/topics/items-dead"})
	name, err := subs.Next()
	if err != nil {
		t.Fatalf("the dead-letter topic has no subscription: %v", err)
	}
	return name
}
