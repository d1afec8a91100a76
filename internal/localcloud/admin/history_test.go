package admin_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/admin"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

func message(id int, item string) *broker.Message {
	return &broker.Message{ID: broker.MessageID(id), PublishTime: time.Unix(int64(id), 0), Attributes: map[string]string{"item_id": item, "run_id": "r"}}
}

func record(h *admin.History, m *broker.Message, kinds ...broker.EventKind) {
	for i, kind := range kinds {
		h.Record(broker.Event{Kind: kind, Time: m.PublishTime.Add(time.Duration(i) * time.Second), Subscription: "s", Message: m, Consumer: "c", Attempt: 1})
	}
}

func TestHistoryForgetsTheOldestMessages(t *testing.T) {
	h := admin.NewHistory(3)
	messages := make([]*broker.Message, 6)
	for i := 1; i <= 5; i++ {
		messages[i] = message(i, fmt.Sprint("item-", i))
		record(h, messages[i], broker.Published)
	}
	for i := 1; i <= 5; i++ {
		if got, want := len(h.Item(fmt.Sprint("item-", i), "", "").Messages), min(i/3, 1); got != want {
			t.Errorf("%d messages of item-%d, want %d", got, i, want)
		}
	}
	// One that was forgotten in a long backlog is delivered: it is followed from here.
	record(h, messages[1], broker.Delivered, broker.Acked)
	got := h.Item("item-1", "", "")
	if len(got.Messages) != 1 || len(got.Messages[0].Subscriptions[0].Events) != 2 || got.Messages[0].Subscriptions[0].Now != "acked" {
		t.Errorf("item-1 after its delivery = %+v", got)
	}
	if got.Kept != 3 || got.Limit != 3 {
		t.Errorf("%d of %d kept, want 3 of 3", got.Kept, got.Limit)
	}
	if got := h.Item("item-3", "", "").Messages; len(got) != 0 {
		t.Errorf("item-3 is kept beyond the limit: %v", got)
	}
	h.Record(broker.Event{Kind: broker.AckedLate, AckID: 3}) // no message
	record(h, &broker.Message{ID: 7}, broker.Published)      // no item: nothing to find it by
	if kept, _ := h.Len(); kept != 3 || len(h.Item("item-1", "", "").Messages) != 1 {
		t.Errorf("a message without item_id took a place")
	}
}

func TestHistoryBoundsTheStepsOfAMessage(t *testing.T) {
	h := admin.NewHistory(10)
	m := message(1, "poison")
	record(h, m, broker.Published)
	for range 1000 {
		record(h, m, broker.Delivered, broker.Nacked)
	}
	record(h, m, broker.DeadLettered)
	got := h.Item("poison", "", "").Messages[0]
	events := got.Subscriptions[0].Events
	if len(events)+got.Omitted != 2002 || len(events) > 24 {
		t.Errorf("%d events and %d omitted, want 2002 in all and at most 24 kept", len(events), got.Omitted)
	}
	if events[0].Event != "published" || events[1].Event != "delivered" || events[len(events)-1].Event != "dead-lettered" || got.Subscriptions[0].Now != "dead-lettered" {
		t.Errorf("the first and last events are not kept: %+v", events)
	}
}

// Leases that several subscriptions extend in turns are one step in each.
func TestHistoryMergesExtensions(t *testing.T) {
	h := admin.NewHistory(10)
	m := message(1, "long")
	for i := range 100 {
		for _, sub := range []string{"a", "b"} {
			h.Record(broker.Event{Kind: broker.Extended, Time: time.Unix(int64(i), 0), Subscription: sub, Message: m, Attempt: 1 + i/50})
		}
	}
	for _, progress := range h.Item("long", "", "").Messages[0].Subscriptions {
		events := progress.Events
		if len(events) != 2 || events[0].Times != 50 || events[1].Times != 50 || !events[1].Last.Equal(time.Unix(99, 0)) || progress.Now != "leased" {
			t.Errorf("%s = %+v", progress.Subscription, progress)
		}
	}
}

// Questions do not disturb what is being recorded; for the race detector.
func TestHistoryIsAskedWhileItRecords(t *testing.T) {
	h := admin.NewHistory(50)
	var both sync.WaitGroup
	both.Go(func() {
		for i := range 2000 {
			record(h, message(i, fmt.Sprint(i%20)), broker.Published, broker.Delivered, broker.Extended, broker.Acked)
		}
	})
	both.Go(func() {
		for i := range 500 {
			for _, m := range h.Item(fmt.Sprint(i%20), "", "").Messages {
				if len(m.Subscriptions[0].Events) > 4 {
					t.Errorf("events of two messages are mixed: %+v", m)
				}
			}
		}
	})
	both.Wait()
}

// The documented cost of a full history: 500 bytes a message as most are, and 2.5 KB at worst.
func TestHistoryMemory(t *testing.T) {
	tests := map[string]struct {
		kinds []broker.EventKind
		limit float64
	}{
		"usual":   {[]broker.EventKind{broker.Published, broker.Delivered, broker.Acked}, 500},
		"endless": {make([]broker.EventKind, 100), 2560},
	}
	for i := range tests["endless"].kinds {
		tests["endless"].kinds[i] = []broker.EventKind{broker.Delivered, broker.Nacked}[i%2]
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const n = 20_000
			before := heapInUse()
			h := admin.NewHistory(n)
			for i := range 2 * n {
				record(h, message(i, fmt.Sprintf("items/%012d", i)), test.kinds...)
			}
			got := (float64(heapInUse()) - float64(before)) / n
			runtime.KeepAlive(h)
			t.Logf("%.0f bytes a message", got)
			if got > test.limit {
				t.Errorf("%.0f bytes a message, want at most %.0f", got, test.limit)
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
