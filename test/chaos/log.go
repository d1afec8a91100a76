package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

// attrForeign marks planted messages that are no items with a name.
const attrForeign = "chaos_foreign"

// attrReason is where a worker says why a message is on the dead-letter topic.
const attrReason = "spotbatch_reason"

// eventLog gathers what the servers see, in the order in which it takes effect,
// since both call it under their own locks. It is safe for concurrent use.
type eventLog struct {
	begin time.Time

	mu     sync.Mutex
	events []audit.Event
	rows   map[audit.Key]bool // of which items
}

func newEventLog() *eventLog {
	return &eventLog{begin: time.Now(), rows: map[audit.Key]bool{}}
}

func (l *eventLog) add(e audit.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Since(l.begin)
	l.events = append(l.events, e)
	if e.Kind == audit.Committed {
		l.rows[e.Item] = true
	}
}

// withRow is the number of items that have a row.
func (l *eventLog) withRow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

var _ broker.Recorder = (*eventLog)(nil)

// Record implements broker.Recorder.
func (l *eventLog) Record(e broker.Event) {
	kind := map[broker.EventKind]audit.Kind{
		broker.Published: audit.Published, broker.Delivered: audit.Delivered, broker.Extended: audit.Extended,
		broker.Acked: audit.Acked, broker.Nacked: audit.Nacked, broker.Expired: audit.Expired,
		broker.DeadLettered: audit.DeadLettered, broker.Dropped: audit.Dropped,
		broker.AckedLate: audit.AckedLate, broker.NackedLate: audit.NackedLate,
	}[e.Kind]
	if kind == "" {
		return
	}
	seen := audit.Event{Kind: kind, Dead: e.Subscription != subscriptionPath, Delivery: uint64(e.AckID), Attempt: e.Attempt}
	if m := e.Message; m != nil {
		seen.Message = uint64(m.ID)
		seen.Foreign = m.Attributes[attrForeign]
		seen.Reason = m.Attributes[attrReason]
		if seen.Foreign == "" {
			seen.Item = audit.Key{Run: m.Attributes[item.AttrRunID], Item: m.Attributes[item.AttrItemID]}
		}
	}
	// A worker's streams are called by its name, a slash and something unique.
	seen.Worker, _, _ = strings.Cut(e.Consumer, "/")
	l.add(seen)
}

// committed implements rows.Observer.
func (l *eventLog) committed(_ time.Time, mutations []rows.Mutation) {
	for i := range mutations {
		m := &mutations[i]
		for _, values := range m.Rows {
			switch cells := cellsOf(m, values); m.Table.Name {
			case "Results":
				l.add(resultRow(cells))
			case "Attempts":
				l.add(audit.Event{
					Kind: audit.Suspected, Item: cells.item(),
					Note: fmt.Sprintf("%v starts alone, the last by %v", cells["Started"], cells["LastWorker"]),
				})
			}
		}
	}
}

// cells are the values of a mutation by column.
type cells map[string]any

func cellsOf(m *rows.Mutation, values []any) cells {
	c := cells{}
	for i, column := range m.Columns {
		c[m.Table.Columns[column].Name] = values[i]
	}
	return c
}

// text is a cell of type STRING; NULL is empty.
func (c cells) text(column string) string {
	s, _ := c[column].(string)
	return s
}

func (c cells) item() audit.Key { return audit.Key{Run: c.text("RunId"), Item: c.text("ItemId")} }

func resultRow(c cells) audit.Event {
	text := c.text
	shard, _ := c["Shard"].(int64) // part of the key, never NULL
	return audit.Event{
		Kind: audit.Committed, Item: c.item(),
		Row: audit.Row{
			Shard: shard, Status: text("Status"), Output: text("Output"), Class: text("ErrorClass"), Message: text("ErrorMessage"),
			ModelVersion: text("ModelVersion"), Worker: text("Worker"),
		},
	}
}

// all returns the events, with those that the model wrote into its own file put
// in by their time.
func (l *eventLog) all(modelLog string) ([]audit.Event, error) {
	starts, err := l.readModelLog(modelLog)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	events := append(slices.Clone(l.events), starts...)
	// Both parts are in order already.
	slices.SortStableFunc(events, func(a, b audit.Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}

// readModelLog reads lines of: nanoseconds since 1970, start or end, worker,
// process, run, item.
func (l *eventLog) readModelLog(path string) ([]audit.Event, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil // the model was never started
	}
	if err != nil {
		return nil, fmt.Errorf("read model log: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	var starts []audit.Event
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 {
			return nil, fmt.Errorf("read model log: line %q", lines.Text())
		}
		nanos, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read model log: %w", err)
		}
		kind := audit.Modelled
		if fields[1] == "end" {
			kind = audit.Answered
		}
		starts = append(starts, audit.Event{
			At: time.Duration(nanos - l.begin.UnixNano()), Kind: kind, Worker: fields[2],
			Item: audit.Key{Run: fields[4], Item: fields[5]}, Note: "process " + fields[3],
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read model log: %w", err)
	}
	return starts, nil
}
