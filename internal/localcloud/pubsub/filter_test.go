package pubsub_test

import (
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Which of a few messages a filter lets through. The messages are named after
// their attributes.
func TestFilters(t *testing.T) {
	messages := map[string]map[string]string{
		"none": nil,
		"com":  {"name": "com"},
		"co":   {"name": "co"},
		"org":  {"name": "org", "lang": "en"},
		"lang": {"iana.org/language_tag": "de"},
		"odd":  {"a-b_1": "x\"y\\z"},
		"é":    {"name": "é"},
	}
	for filter, want := range map[string]string{
		``:                                   "none com co org lang odd é",
		`attributes:name`:                    "com co org é",
		` attributes : name `:                "com co org é",
		`attributes:"name"`:                  "com co org é",
		`attributes:Name`:                    "",
		`attributes:"iana.org/language_tag"`: "lang",
		`attributes.name = "com"`:            "com",
		`attributes.name="com"`:              "com",
		`attributes.name = "Com"`:            "",
		`attributes.name != "com"`:           "none co org lang odd é",
		`hasPrefix(attributes.name, "co")`:   "com co",
		`hasPrefix(attributes.name,"")`:      "com co org é",
		`NOT attributes:name`:                "none lang odd",
		`-attributes:name`:                   "none lang odd",
		`attributes.name = "com" OR attributes.name = "org"`:                       "com org",
		`attributes:name AND NOT attributes:lang`:                                  "com co é",
		`NOT attributes:name AND attributes:name`:                                  "", // NOT binds tightest
		`NOT (attributes:name AND attributes:lang)`:                                "none com co lang odd é",
		`attributes:name AND (attributes:lang OR attributes.name = "co")`:          "co org",
		`attributes:lang OR attributes:name OR attributes:"iana.org/language_tag"`: "com co org lang é",
		`attributes.a-b_1 = "x\"y\\z"`:                                             "odd",
		`attributes.name = "\u00e9"`:                                               "é",
		`attributes.name = "\xc3\xa9"`:                                             "é",
		`attributes.name = "\303\251"`:                                             "é",
	} {
		t.Run(filter, func(t *testing.T) {
			b := setup(t)
			b.create(t, func(s *pubsubpb.Subscription) { s.Filter = filter })
			for name, attributes := range messages {
				_, err := b.pub.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(name), Attributes: attributes}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			wanted := map[string]bool{}
			for name := range strings.FieldsSeq(want) {
				wanted[name] = true
			}
			resp, err := b.sub.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 100, ReturnImmediately: true}) //nolint:staticcheck // nothing may come
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, m := range resp.GetReceivedMessages() {
				got[string(m.GetMessage().GetData())] = true
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if c := b.counts(t); c.Acked != len(messages)-len(wanted) || c.Leased != len(wanted) {
				t.Errorf("the others do not count as acked: %+v", c)
			}
		})
	}
}

func TestInvalidFilters(t *testing.T) {
	b := setup(t)
	b.createTopic(t, topic)
	for _, filter := range []string{
		" ", "attributes", "attributes:", "attributes.", "attributes.name", `attributes.name = com`, `attributes.name = 'com'`,
		`attributes.name = "com`, `attributes.name == "com"`, `attributes.name > "com"`, `attributes.name = "\q"`, `name = "com"`,
		`attributes.a.b = "c"`, `attributes:a attributes:b`, `attributes:a and attributes:b`, `attributes:a AND`, `AND attributes:a`,
		`attributes:a AND attributes:b OR attributes:c`, `(attributes:a`, `attributes:a)`, `()`, `NOT`, `NOT NOT attributes:a`,
		`hasPrefix(attributes.a)`, `hasPrefix(attributes.a, "b"`, `hasPrefix(attributes:a, "b")`, `hasSuffix(attributes.a, "b")`,
		`data = "x"`, `attributes.a = "` + strings.Repeat("x", 256) + `"`, strings.Repeat("(", 200), strings.Repeat("NOT ", 60),
	} {
		_, err := b.sub.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: sub, Topic: topic, Filter: filter})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: got %v, want InvalidArgument", filter, err)
		}
	}
}
