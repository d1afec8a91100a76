package admin

import (
	"context"
	"errors"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
)

// State is where everything is.
type State struct {
	At            time.Time      `json:"at"`
	Topics        []Topic        `json:"topics"`
	Subscriptions []Subscription `json:"subscriptions"`
	Rows          []RunRows      `json:"rows"`
	// RowsCountedAt is as of when Rows are: counting many takes long, and is done less often. Nil while the first
	// count is being made, and without Spanner.
	RowsCountedAt *time.Time `json:"rows_counted_at,omitempty"`
	// RowsOmitted says that there are runs beyond those in Rows.
	RowsOmitted bool    `json:"rows_omitted,omitempty"`
	Faults      []Fault `json:"faults"`
	Item        *Item   `json:"item,omitempty"` // if an item was asked for
}

// Topic is a topic with its subscriptions.
type Topic struct {
	Name          string   `json:"name"`
	Subscriptions []string `json:"subscriptions"`
}

// Subscription is a subscription with the counts of its messages. At any time
// published = ready + delayed + leased + acked + dead_lettered + dropped.
type Subscription struct {
	Name            string `json:"name"`
	Topic           string `json:"topic"`
	DeadLetterTopic string `json:"dead_letter_topic,omitempty"`
	Detached        bool   `json:"detached,omitempty"`
	Published       int    `json:"published"`
	Ready           int    `json:"ready"`
	Delayed         int    `json:"delayed"` // wait for the back-off of the retry policy
	Leased          int    `json:"leased"`
	Acked           int    `json:"acked"`
	DeadLettered    int    `json:"dead_lettered"`
	Dropped         int    `json:"dropped"`   // older than the retention, or lost by a detach
	Consumers       int    `json:"consumers"` // open streams and waiting pulls
}

// RunRows is how many rows of a run have a status, in one database.
type RunRows struct {
	Database string `json:"database"`
	RunID    string `json:"run_id"`
	Status   string `json:"status"`
	Rows     int64  `json:"rows"`
}

// state describes everything, or one subscription only.
func (s *Server) state(ctx context.Context, only string) (*State, error) {
	state := &State{At: time.Now().UTC(), Topics: []Topic{}, Subscriptions: []Subscription{}, Rows: []RunRows{}, Faults: s.listFaults()}
	if s.broker != nil {
		s.describeTopics(state)
		if err := s.describeSubscriptions(state, only); err != nil {
			return nil, err
		}
	}
	if only != "" && len(state.Subscriptions) == 0 {
		return nil, notFound("there is no subscription " + quote(only) + "; names are like projects/P/subscriptions/S")
	}
	if s.counter != nil {
		counted, err := s.counter.count(ctx)
		if err != nil {
			return nil, err
		}
		for _, group := range counted.groups {
			state.Rows = append(state.Rows, RunRows{Database: group.Database, RunID: group.Values[0], Status: group.Values[1], Rows: group.Rows})
		}
		if at := counted.at.UTC(); !at.IsZero() {
			state.RowsCountedAt, state.RowsOmitted = &at, !counted.complete
		}
	}
	return state, nil
}

func (s *Server) describeTopics(state *State) {
	for _, topic := range s.broker.Topics() {
		subscriptions, err := s.broker.TopicSubscriptions(topic.Name)
		if err != nil {
			continue // it was deleted in between
		}
		state.Topics = append(state.Topics, Topic{Name: topic.Name, Subscriptions: subscriptions})
	}
}

func (s *Server) describeSubscriptions(state *State, only string) error {
	for _, config := range s.broker.Subscriptions() {
		if only != "" && config.Name != only {
			continue
		}
		counts, err := s.broker.Counts(config.Name)
		if errors.Is(err, broker.ErrSubscriptionNotFound) {
			continue // it was deleted in between
		}
		if err != nil {
			return err
		}
		subscription := Subscription{
			Name: config.Name, Topic: config.Topic, Detached: config.Detached,
			Published: counts.Published, Ready: counts.Ready, Delayed: counts.Delayed, Leased: counts.Leased, Acked: counts.Acked,
			DeadLettered: counts.DeadLettered, Dropped: counts.Dropped, Consumers: counts.Consumers,
		}
		if config.DeadLetter != nil {
			subscription.DeadLetterTopic = config.DeadLetter.Topic
		}
		state.Subscriptions = append(state.Subscriptions, subscription)
	}
	return nil
}
