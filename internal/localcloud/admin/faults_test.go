package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	gcp "cloud.google.com/go/spanner"
	"cloud.google.com/go/storage"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

func (b bench) faults() []admin.Fault {
	b.Helper()
	code, text := b.call(http.MethodGet, "/faults", "")
	var list struct{ Faults []admin.Fault }
	if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK {
		b.Fatalf("GET /faults = %d %v: %s", code, err, text)
	}
	return list.Faults
}

func TestFaultsAreAddedListedAndCleared(t *testing.T) {
	b := setup(t)
	if code, text := b.call(http.MethodGet, "/faults", ""); code != http.StatusOK || strings.Join(strings.Fields(text), "") != `{"faults":[]}` {
		t.Errorf("faults at first = %d %s", code, text)
	}
	b.fault(`{"method":"Commit","code":"ABORTED","probability":0.25,"seed":7,"message":"no"}`)
	b.fault(`{"service":"Publisher","method":"Publish","code":"UNAVAILABLE","when":"after","count":3}`)
	b.fault(`{"service":"google.pubsub.v1.Subscriber","method":"StreamingPull","close":true}`)
	b.fault(`{"service":"storage","method":"objects.get","delay":"1500ms"}`)
	b.fault(`{"black_hole":true,"method":"Acknowledge"}`)
	want := []admin.Fault{
		{ID: 1, Method: "Commit", When: "before", Code: "ABORTED", Message: "no", Probability: 0.25, Seed: 7},
		{ID: 2, Service: "google.pubsub.v1.Publisher", Method: "Publish", When: "after", Code: "UNAVAILABLE", Count: 3},
		{ID: 3, Service: "google.pubsub.v1.Subscriber", Method: "StreamingPull", When: "before", Close: true},
		{ID: 4, Service: "storage", Method: "objects.get", When: "before", Delay: "1.5s"},
		{ID: 5, Method: "Acknowledge", When: "before", BlackHole: true},
	}
	if diff := cmp.Diff(want, b.faults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if code, text := b.call(http.MethodDelete, "/faults/2", ""); code != http.StatusOK {
		t.Errorf("DELETE /faults/2 = %d %s", code, text)
	}
	if code, text := b.call(http.MethodDelete, "/faults/2", ""); code != http.StatusNotFound || !strings.Contains(text, "there is no fault 2") {
		t.Errorf("DELETE /faults/2 again = %d %s", code, text)
	}
	if got := b.faults(); len(got) != 4 {
		t.Errorf("%d faults after one was removed, want 4", len(got))
	}
	if code, text := b.call(http.MethodDelete, "/faults", ""); code != http.StatusOK || !strings.Contains(text, `"removed": 4`) {
		t.Errorf("DELETE /faults = %d %s", code, text)
	}
	if got := b.faults(); len(got) != 0 {
		t.Errorf("faults after they were cleared: %v", got)
	}
}

func TestBadFaultsAreRefused(t *testing.T) {
	b := setup(t)
	tests := map[string]struct{ body, want string }{
		"no JSON":               {`Commit`, "the body must be a JSON object"},
		"empty":                 {``, "the body must be a JSON object"},
		"array":                 {`[]`, "the body must be a JSON object"},
		"two objects":           {`{"code":"ABORTED"} {}`, "behind the object"},
		"unknown field":         {`{"kode":"ABORTED"}`, `unknown field "kode"; the fields are service, method`},
		"wrong type":            {`{"count":"three","code":"ABORTED"}`, "count cannot be a JSON string"},
		"the server's field":    {`{"id":4,"code":"ABORTED"}`, "id cannot be a JSON number"},
		"does nothing":          {`{"method":"Commit"}`, "it needs a code, a delay, black_hole or close"},
		"unknown service":       {`{"service":"google.pubsub.v1.Publsher","code":"ABORTED"}`, "google.pubsub.v1.Publisher"},
		"method of another":     {`{"service":"Publisher","method":"Commit","code":"ABORTED"}`, "google.pubsub.v1.Publisher has"},
		"unknown method":        {`{"method":"Comit","code":"ABORTED"}`, `method is "Comit"`},
		"unknown code":          {`{"code":"ABORT"}`, "it must be one of CANCELLED"},
		"code OK":               {`{"code":"OK"}`, "it must be one of"},
		"unknown side":          {`{"code":"ABORTED","when":"during"}`, "it must be before or after"},
		"delay without unit":    {`{"delay":"5"}`, "a duration with its unit"},
		"negative delay":        {`{"delay":"-5s"}`, "delay must not be negative"},
		"negative count":        {`{"code":"ABORTED","count":-1}`, "count must not be negative"},
		"probability over 1":    {`{"code":"ABORTED","probability":1.5}`, "probability must be between 0 and 1"},
		"probability 0":         {`{"code":"ABORTED","probability":0}`, "probability must be greater than 0"},
		"black hole and code":   {`{"black_hole":true,"code":"ABORTED"}`, "black_hole never answers"},
		"close and delay":       {`{"close":true,"delay":"1s"}`, "close strikes at once"},
		"number out of range":   {`{"code":"ABORTED","count":99999999999999999999}`, "count cannot be"},
		"hostile text, 2 lines": {`{"code":"<script>\nalert(1)"}`, `must be a JSON object`},
		"hostile text":          {`{"code":"<script>\n` + strings.Repeat("x", 500) + `"}`, `must be`},
		"too long":              {`{"message":"` + strings.Repeat("x", 70_000) + `","code":"ABORTED"}`, "longer than 64 KiB"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, text := b.call(http.MethodPost, "/faults", strings.ReplaceAll(test.body, "\n", `\n`))
			var answer struct{ Error string }
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if code != http.StatusBadRequest || !strings.Contains(answer.Error, test.want) && !strings.Contains(answer.Error, "it must be one of") {
				t.Errorf("answer = %d %s, want 400 with %q", code, answer.Error, test.want)
			}
			if strings.Contains(answer.Error, "\n") || len(answer.Error) > 2000 {
				t.Errorf("error is not one short line: %q", answer.Error)
			}
		})
	}
	if got := b.faults(); len(got) != 0 {
		t.Errorf("bad requests left faults behind: %v", got)
	}
	for _, path := range []string{"/faults/x", "/faults/1e3"} {
		if code, _ := b.call(http.MethodDelete, path, ""); code != http.StatusBadRequest {
			t.Errorf("DELETE %s = %d, want 400", path, code)
		}
	}
	if code, text := b.call(http.MethodPut, "/faults", "{}"); code != http.StatusMethodNotAllowed || !strings.Contains(text, "GET, POST, DELETE") {
		t.Errorf("PUT /faults = %d %s", code, text)
	}
	if code, text := b.call(http.MethodGet, "/fault", ""); code != http.StatusNotFound || !strings.Contains(text, "/faults") {
		t.Errorf("GET /fault = %d %s", code, text)
	}
}

// A page of another site that a developer has open must not be able to break the tests that run here.
func TestOtherSitesCannotChangeAnything(t *testing.T) {
	b := setup(t)
	for name, header := range map[string][2]string{
		"by fetch metadata": {"Sec-Fetch-Site", "cross-site"},
		"by origin":         {"Origin", "https://example.com"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/faults", strings.NewReader(`{"code":"ABORTED"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header[0], header[1])
		if code, text := b.do(req); code != http.StatusForbidden {
			t.Errorf("%s: POST /faults = %d %s, want 403", name, code, text)
		}
	}
	if got := b.faults(); len(got) != 0 {
		t.Errorf("faults: %v", got)
	}
}

func TestFaultBeforeAndAfterTheEffectOfACommit(t *testing.T) {
	b := setup(t)
	client, err := gcp.NewClientWithConfig(t.Context(), localcloudtest.Database(t, b.Server), gcp.ClientConfig{DisableNativeMetrics: true}, localcloudtest.SpannerOptions(b.Server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	insert := func(run string) codes.Code {
		_, err := client.Apply(t.Context(), []*gcp.Mutation{gcp.Insert("Runs", []string{"RunId", "State", "Published", "CreatedAt", "UpdatedAt"},
			[]any{run, "PUBLISHED", 1, time.Now(), gcp.CommitTimestamp})}, gcp.ApplyAtLeastOnce())
		return gcp.ErrCode(err)
	}
	b.fault(`{"method":"Commit","code":"PERMISSION_DENIED","count":1}`)
	if got := []codes.Code{insert("a"), insert("a")}; !cmp.Equal(got, []codes.Code{codes.PermissionDenied, codes.OK}) {
		t.Errorf("fault before the effect, and the same again = %v", got)
	}
	b.fault(`{"service":"google.spanner.v1.Spanner","method":"Commit","code":"PERMISSION_DENIED","when":"after","count":1}`)
	if got := []codes.Code{insert("b"), insert("b")}; !cmp.Equal(got, []codes.Code{codes.PermissionDenied, codes.AlreadyExists}) {
		t.Errorf("fault after the effect, and the same again = %v", got)
	}
}

// A stream that is open is closed at once, and a client that was told goes on with a new one.
func TestCloseEndsOpenStreams(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	stream, err := client.SubscriptionAdminClient.StreamingPull(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pubsubpb.StreamingPullRequest{Subscription: subscription, StreamAckDeadlineSeconds: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	b.fault(`{"method":"StreamingPull","close":true,"count":1,"message":"bye"}`)
	_, err = stream.Recv()
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "bye" {
		t.Errorf("open stream = %v, want Unavailable: bye", err)
	}
	if got := b.faults(); len(got) != 0 {
		t.Errorf("the fault is not spent: %v", got)
	}

	// The high-level client does not even show it.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b.fault(`{"method":"StreamingPull","close":true,"count":2}`)
	b.publish(client, "a")
	err = client.Subscriber(subscription).Receive(ctx, func(_ context.Context, m *gcppubsub.Message) {
		m.Ack()
		cancel()
	})
	if err != nil || ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("receive through two closed streams = %v, context %v", err, ctx.Err())
	}
}

func TestFaultsOfCloudStorage(t *testing.T) {
	b := setup(t)
	client, err := storage.NewClient(t.Context(), localcloudtest.StorageOptions(b.Server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	bucket := client.Bucket("data")
	if err := bucket.Create(t.Context(), localcloudtest.Project, nil); err != nil {
		t.Fatal(err)
	}
	put := func() int {
		w := bucket.Object("a/b").If(storage.Conditions{DoesNotExist: true}).NewWriter(t.Context())
		_, err := io.WriteString(w, "x")
		err = errors.Join(err, w.Close())
		if failure, ok := errors.AsType[*googleapi.Error](err); ok {
			return failure.Code
		}
		if err != nil {
			t.Errorf("put: %v", err)
		}
		return http.StatusOK
	}
	b.fault(`{"service":"storage","method":"objects.insert","code":"UNAVAILABLE","count":1}`)
	b.fault(`{"service":"storage","method":"objects.insert","code":"RESOURCE_EXHAUSTED","when":"after","count":1}`)
	if got := []int{put(), put(), put()}; !cmp.Equal(got, []int{503, 429, 412}) {
		t.Errorf("lost before, lost after, and again = %v, want 503, 429 and 412", got)
	}
	b.fault(`{"service":"storage","method":"objects.get","delay":"1h"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := bucket.Object("a/b").Attrs(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delayed get = %v, want the deadline", err)
	}
	b.call(http.MethodDelete, "/faults", "")
	b.fault(`{"service":"storage","method":"objects.get","delay":"1ms","when":"after"}`)
	if attrs, err := bucket.Object("a/b").Attrs(t.Context()); err != nil || attrs.Size != 1 {
		t.Errorf("get with a short delay = %v, %v", attrs, err)
	}
	b.call(http.MethodDelete, "/faults", "")
	b.fault(`{"service":"storage","black_hole":true,"count":1}`)
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	w := bucket.Object("c").NewWriter(ctx)
	_, _ = io.WriteString(w, "x") // its error comes back from Close
	if err := w.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("upload into the black hole = %v, want the deadline", err)
	}
}

// What the documentation shows can be typed as it stands.
func TestDocumentedFaultsAreTaken(t *testing.T) {
	text, err := os.ReadFile("../../../docs/localcloud.md")
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t)
	examples := regexp.MustCompile(`-d '([^']+)'(.*)`).FindAllStringSubmatch(string(text), -1)
	if len(examples) < 5 {
		t.Fatalf("%d examples of faults", len(examples))
	}
	for _, example := range examples {
		want := http.StatusCreated
		if strings.Contains(example[2], "refused") {
			want = http.StatusBadRequest
		}
		if code, answer := b.call(http.MethodPost, "/faults", example[1]); code != want {
			t.Errorf("%s = %d %s, want %d", example[1], code, answer, want)
		}
	}
}
