package admin

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

const (
	// HistoryLimit is how many messages a History made with limit 0 remembers.
	HistoryLimit = 100_000
	// maxSteps bounds the steps that are kept of one message: the first ones, which tell how it began, and the
	// latest.
	maxSteps   = 24
	firstSteps = 4
)

// The attributes by which messages are found.
const (
	attrItemID = "item_id"
	attrRunID  = "run_id"
)

// History remembers what happened to the latest messages that have an item_id. Payloads are not kept. A message
// that was forgotten and then goes on (a delivery from a long backlog) is remembered again, from there. It is
// safe for concurrent use. Make one with NewHistory.
type History struct {
	mu    sync.Mutex
	byID  map[broker.MessageID]*record
	ring  []*record // grows to limit; then next is the oldest
	next  int
	limit int
}

var _ broker.Recorder = (*History)(nil)

// NewHistory returns an empty History for limit messages; 0 means HistoryLimit. A full one takes about 400 bytes a
// message, and at most 2.5 KB beyond its IDs.
func NewHistory(limit int) *History {
	if limit == 0 {
		limit = HistoryLimit
	}
	return &History{byID: map[broker.MessageID]*record{}, limit: limit}
}

// record is what is known of one message. All but steps and omitted is set once.
type record struct {
	id        broker.MessageID
	item, run string
	published time.Time
	size      int

	steps   []step
	omitted int     // steps that are not kept
	usual   [3]step // where steps are at first: most messages are published, delivered and acked
}

// step is one event, or several leases extended in a row.
type step struct {
	at, last     int64 // nanoseconds since 1970
	subscription string
	consumer     string
	times        int32
	attempt      int32
	kind         broker.EventKind
}

// Record is the broker's call.
func (h *History) Record(e broker.Event) {
	if e.Message == nil {
		return // about a delivery that nobody remembers
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.byID[e.Message.ID]
	if r == nil {
		item := e.Message.Attributes[attrItemID]
		if item == "" {
			return
		}
		r = &record{
			id: e.Message.ID, item: item, run: e.Message.Attributes[attrRunID],
			published: e.Message.PublishTime, size: len(e.Message.Data),
		}
		r.steps = r.usual[:0]
		h.remember(r)
	}
	at := e.Time.UnixNano()
	r.add(step{
		at: at, last: at, subscription: e.Subscription, consumer: e.Consumer, times: 1, attempt: int32(e.Attempt), kind: e.Kind,
	})
}

func (h *History) remember(r *record) {
	h.byID[r.id] = r
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, r)
		return
	}
	delete(h.byID, h.ring[h.next].id)
	h.ring[h.next] = r
	h.next = (h.next + 1) % h.limit
}

func (r *record) add(s step) {
	if s.kind == broker.Extended {
		// A long lease is extended again and again: that is one step.
		for i := len(r.steps) - 1; i >= 0; i-- {
			last := &r.steps[i]
			if last.subscription != s.subscription {
				continue
			}
			if last.kind == broker.Extended && last.attempt == s.attempt {
				last.times++
				last.last = s.at
				return
			}
			break
		}
	}
	if len(r.steps) == maxSteps {
		r.steps = slices.Delete(r.steps, firstSteps, firstSteps+1)
		r.omitted++
	}
	r.steps = append(r.steps, s)
}

// Len returns how many messages are remembered, and the limit.
func (h *History) Len() (kept, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ring), h.limit
}

// find returns copies of the records of an item, the oldest message first; an empty run means any.
func (h *History) find(item, run string) []record {
	h.mu.Lock()
	all := slices.Clone(h.ring)
	h.mu.Unlock()
	// The broker must not wait for this: what is compared here never changes.
	all = slices.DeleteFunc(all, func(r *record) bool { return r.item != item || run != "" && r.run != run })
	slices.SortFunc(all, func(a, b *record) int { return int(a.id) - int(b.id) })
	found := make([]record, len(all))
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range all {
		found[i] = *r
		found[i].steps = slices.Clone(r.steps) // the broker goes on to add to its own
	}
	return found
}

// Item is what is remembered of the messages of one item.
type Item struct {
	ItemID   string    `json:"item_id"`
	Messages []Message `json:"messages"` // the oldest first; more than one when it was published again
	// Kept says how many messages are remembered, of Limit: an item that is not found may have been forgotten.
	Kept  int `json:"kept"`
	Limit int `json:"limit"`
}

// Message is one message of an item, and what happened to it.
type Message struct {
	MessageID     broker.MessageID  `json:"message_id,string"`
	RunID         string            `json:"run_id"`
	PublishedAt   time.Time         `json:"published_at"`
	PayloadBytes  int               `json:"payload_bytes"`
	Subscriptions []MessageProgress `json:"subscriptions"`
	Omitted       int               `json:"omitted"` // events that are not kept
}

// MessageProgress is what happened to a message in one subscription.
type MessageProgress struct {
	Subscription string         `json:"subscription"`
	Now          string         `json:"now"` // waiting, leased, acked, dead-lettered or dropped
	Events       []MessageEvent `json:"events"`
}

// MessageEvent is one step. Times and Last are for leases that were extended several times in a row.
type MessageEvent struct {
	Event    string     `json:"event"`
	At       time.Time  `json:"at"`
	Consumer string     `json:"consumer,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
	Times    int        `json:"times,omitempty"`
	Last     *time.Time `json:"last,omitempty"`
}

// Item tells what is remembered of an item. An empty run or subscription means any.
func (h *History) Item(item, run, subscription string) Item {
	result := Item{ItemID: item, Messages: []Message{}}
	result.Kept, result.Limit = h.Len()
	for _, r := range h.find(item, run) {
		message := Message{
			MessageID: r.id, RunID: r.run, PublishedAt: r.published.UTC(), PayloadBytes: r.size,
			Subscriptions: progress(r.steps, subscription), Omitted: r.omitted,
		}
		if len(message.Subscriptions) > 0 {
			result.Messages = append(result.Messages, message)
		}
	}
	return result
}

// progress sorts steps by subscription.
func progress(steps []step, only string) []MessageProgress {
	list := []MessageProgress{}
	for _, s := range steps {
		if only != "" && s.subscription != only {
			continue
		}
		i := slices.IndexFunc(list, func(p MessageProgress) bool { return p.Subscription == s.subscription })
		if i < 0 {
			i = len(list)
			list = append(list, MessageProgress{Subscription: s.subscription})
		}
		list[i].Now = now(s.kind)
		list[i].Events = append(list[i].Events, s.event())
	}
	slices.SortStableFunc(list, func(a, b MessageProgress) int { return strings.Compare(a.Subscription, b.Subscription) })
	return list
}

// now is where a message is after an event.
func now(last broker.EventKind) string {
	switch last {
	case broker.Delivered, broker.Extended:
		return "leased"
	case broker.Acked, broker.DeadLettered, broker.Dropped:
		return last.String()
	default:
		return "waiting"
	}
}

func (s step) event() MessageEvent {
	e := MessageEvent{Event: s.kind.String(), At: time.Unix(0, s.at).UTC(), Consumer: s.consumer, Attempt: int(s.attempt)}
	if s.kind == broker.Published {
		e.Attempt = 0 // nobody has tried yet
	}
	if s.times > 1 {
		last := time.Unix(0, s.last).UTC()
		e.Times, e.Last = int(s.times), &last
	}
	return e
}
