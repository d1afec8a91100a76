package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever is sent, a rule that is taken is one that can strike, and comes back as it was sent.
func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{
		`{"method":"Commit","code":"ABORTED","probability":0.25,"seed":7}`, `{"service":"Publisher","delay":"1.5s","when":"after","count":3}`,
		`{"black_hole":true}`, `{"close":true,"message":"\u0000"}`, `{}`, `[`, `{"id":{}}`, `{"code":"ABORTED"} x`, `null`,
	} {
		f.Add([]byte(seed))
	}
	methods := Methods{"google.pubsub.v1.Publisher": {"Publish"}, "google.spanner.v1.Spanner": {"Commit"}, "storage": {"objects.get"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		rule, err := methods.parseRule(body)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		if err := rule.Validate(); err != nil {
			t.Errorf("%s is taken: %v", body, err)
		}
		described := map[string]any{}
		text, err := json.Marshal(describe(rule))
		if err != nil || json.Unmarshal(text, &described) != nil {
			t.Fatalf("describe %+v: %v", rule, err)
		}
		delete(described, "struck")
		if text, err = json.Marshal(described); err != nil {
			t.Fatal(err)
		}
		again, err := methods.parseRule(text)
		if rule.Seed > 1<<53 {
			again.Seed = rule.Seed // the map above holds numbers as floats
		}
		if rule.Count > 1<<53 {
			again.Count = rule.Count
		}
		if diff := cmp.Diff(rule, again); diff != "" || err != nil {
			t.Errorf("%s is described as %s, which is another rule: %v\n%s", body, text, err, diff)
		}
	})
}
