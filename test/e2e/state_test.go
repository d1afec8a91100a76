package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

const itemsSubscriptionName = "projects/demo/subscriptions/items-workers"

// subscription is what localcloud says of one.
type subscription struct {
	Name         string `json:"name"`
	Published    int    `json:"published"`
	Ready        int    `json:"ready"`
	Delayed      int    `json:"delayed"`
	Leased       int    `json:"leased"`
	Acked        int    `json:"acked"`
	DeadLettered int    `json:"dead_lettered"`
	Dropped      int    `json:"dropped"`
}

// subscriptions asks localcloud where all messages are.
func subscriptions(t *testing.T, c *cluster.Cluster) []subscription {
	t.Helper()
	code, body, err := cluster.Get(ctx(t), "http://"+cloudHost(t, c, "LOCALCLOUD_ADMIN_HOST")+"/state")
	var state struct {
		Subscriptions []subscription `json:"subscriptions"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &state)
	}
	if err != nil || code != http.StatusOK {
		t.Fatalf("ask localcloud for its state: %d, %v: %s", code, err, body)
	}
	return state.Subscriptions
}

func itemsSubscription(t *testing.T, c *cluster.Cluster) subscription {
	t.Helper()
	for _, s := range subscriptions(t, c) {
		if s.Name == itemsSubscriptionName {
			return s
		}
	}
	t.Fatalf("there is no %s", itemsSubscriptionName)
	return subscription{}
}

// waitAllAcked waits until that many messages are acked. To ask localcloud takes
// less of the machine than to ask the publisher.
func waitAllAcked(t *testing.T, c *cluster.Cluster, messages int) {
	t.Helper()
	until, tick := ctx(t), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		items := itemsSubscription(t, c)
		if items.Acked == messages {
			return
		}
		select {
		case <-tick.C:
		case <-until.Done():
			t.Fatalf("wait for %d acks: %+v", messages, items)
		}
	}
}
