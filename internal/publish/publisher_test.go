package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/item"
)

func TestRunPublishesEveryItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic, runs := &memoryTopic{delay: 3 * time.Second}, newRuns()
		start := time.Now()
		summary, err := newPublisher(t, topic, 10, runs).Run(t.Context(), "r", numbered(25), "", NoCheckpoint{})
		if err != nil || summary.Total.Items != 25 {
			t.Fatalf("%+v and error %v, want 25 items", summary, err)
		}
		for i, it := range topic.sent {
			want := item.Item{Key: item.Key{RunID: "r", ItemID: fmt.Sprint(i)}, ContentType: item.ContentTypeJSON, Data: []byte(`{}`)}
			if diff := cmp.Diff(want, it); diff != "" {
				t.Errorf("message %d (-want +got):\n%s", i, diff)
			}
		}
		run := runs.rows["r"]
		if run.State != StatePublished || run.Published != 25 || run.Dataset != "numbers" {
			t.Errorf("run %+v, want 25 published of numbers", run)
		}
		// The row follows the confirmations while they come.
		if took := time.Since(start); len(runs.updates) != 1+int(took/recordInterval) {
			t.Errorf("%d updates in %s", len(runs.updates), took)
		}
		for i, u := range runs.updates[:len(runs.updates)-1] {
			if u.State != StatePublishing || i > 0 && u.Published < runs.updates[i-1].Published {
				t.Errorf("update %d is %+v", i, u)
			}
		}
	})
}

func TestRunAfterAnyFailureIsGoneOnWithByTheSameCall(t *testing.T) {
	const n = 12
	for failing := range n {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic, runs := &memoryTopic{delay: time.Second}, newRuns()
				topic.fail = func(i int) error {
					if i == failing {
						return errBroken
					}
					return nil
				}
				_, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(n), "", NoCheckpoint{})
				if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "give the same command again") {
					t.Fatalf("error %v", err)
				}
				run := runs.rows["r"]
				if run.State != StatePublishing || run.Published < int64(failing) || run.Published > int64(len(topic.sent)-1) {
					t.Fatalf("run %+v after %d messages, of which number %d failed", run, len(topic.sent), failing)
				}
				before := run.Published
				topic.fail = nil
				if _, err = newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(n), "", NoCheckpoint{}); err != nil {
					t.Fatal(err)
				}
				if run = runs.rows["r"]; run.State != StatePublished || run.Published != n {
					t.Errorf("run %+v, want %d published", run, n)
				}
				for _, u := range runs.updates {
					if u.Published > n {
						t.Errorf("row said %d of %d published", u.Published, n)
					}
				}
				second := runs.updates[len(runs.updates)-1]
				if second.Published < before {
					t.Errorf("row went back from %d to %d", before, second.Published)
				}
			})
		})
	}
}

func TestRunStopsWhenAsked(t *testing.T) {
	cause := errors.New("received terminated")
	t.Run("what was sent is counted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			topic, runs := &memoryTopic{delay: 2 * time.Second}, newRuns()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := newPublisher(t, topic, 10, runs).Run(ctx, "r", numbered(1000), "", NoCheckpoint{})
			if !errors.Is(err, cause) {
				t.Fatalf("error %v, want %v", err, cause)
			}
			if took := time.Since(start); took > 3*time.Second+topic.delay {
				t.Errorf("stopped after %s", took)
			}
			run := runs.rows["r"]
			if run.State != StatePublishing || run.Published != int64(len(topic.sent)) {
				t.Errorf("run %+v after %d messages", run, len(topic.sent))
			}
		})
	})
	t.Run("confirmations that do not come are not awaited for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			topic, runs := &memoryTopic{hang: 5}, newRuns()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := newPublisher(t, topic, 10, runs).Run(ctx, "r", numbered(1000), "", NoCheckpoint{})
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "5 of 1000 items") {
				t.Fatalf("error %v", err)
			}
			if took := time.Since(start); took != time.Second+stopTimeout {
				t.Errorf("stopped after %s, want %s", took, time.Second+stopTimeout)
			}
			if run := runs.rows["r"]; run.Published != 5 {
				t.Errorf("run %+v, want 5 published", run)
			}
		})
	})
	t.Run("after everything was sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			topic, runs := &memoryTopic{hang: 1}, newRuns()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			_, err := newPublisher(t, topic, 10, runs).Run(ctx, "r", numbered(3), "", NoCheckpoint{})
			if !errors.Is(err, cause) || runs.rows["r"].State != StatePublishing {
				t.Fatalf("error %v, run %+v", err, runs.rows["r"])
			}
		})
	})
	t.Run("before anything was sent", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		runs := newRuns()
		if _, err := newPublisher(t, &memoryTopic{}, 10, runs).Run(ctx, "r", numbered(10), "", NoCheckpoint{}); !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
		if len(runs.rows) != 0 {
			t.Errorf("runs %v, want none", runs.rows)
		}
	})
}

func TestRunRefuses(t *testing.T) {
	tests := []struct {
		name string
		row  Run
		data *rows
		id   string
		want string
	}{
		{"a run that is published", Run{ID: "r", Dataset: "numbers", State: StatePublished, Published: 7}, numbered(3), "r", "run r is PUBLISHED already, with 7 items; name another run"},
		{"a run that is cancelled", Run{ID: "r", Dataset: "numbers", State: StateCancelled}, numbered(3), "r", "run r is CANCELLED already"},
		{"another dataset", Run{ID: "r", Dataset: "letters", State: StatePublishing}, numbered(3), "r", "begun with another dataset (letters)"},
		{"a bad run ID", Run{}, numbered(3), "a b", "run_id"},
		{"a dataset that is not right", Run{}, &rows{ids: []string{"a", "b", "a"}, checkErr: errBroken}, "r", "broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topic, runs := &memoryTopic{}, newRuns()
			if test.row.ID != "" {
				runs.rows[test.row.ID] = test.row
			}
			_, err := newPublisher(t, topic, 10, runs).Run(t.Context(), test.id, test.data, "", NoCheckpoint{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if len(topic.sent) > 0 || len(runs.updates) > 0 || runs.rows["r"] != test.row {
				t.Errorf("%d messages, %d updates, row %+v; want nothing done", len(topic.sent), len(runs.updates), runs.rows["r"])
			}
		})
	}
}

func TestRunNoticesAChangedDataset(t *testing.T) {
	data := numbered(5)
	data.survey = []string{"0", "1", "2", "3"}
	runs := newRuns()
	_, err := newPublisher(t, &memoryTopic{}, 10, runs).Run(t.Context(), "r", data, "", NoCheckpoint{})
	if err == nil || !strings.Contains(err.Error(), "had 4 items when it was checked and 5 when it was published") {
		t.Errorf("error %v", err)
	}
	if runs.rows["r"].State != StatePublishing {
		t.Errorf("run %+v, want it PUBLISHING", runs.rows["r"])
	}
}

func TestRunWhoseSourceBreaks(t *testing.T) {
	data := numbered(5)
	data.end = errBroken
	runs := newRuns()
	_, err := newPublisher(t, &memoryTopic{}, 10, runs).Run(t.Context(), "r", data, "", NoCheckpoint{})
	if !errors.Is(err, errBroken) || runs.rows["r"].State != StatePublishing || runs.rows["r"].Published != 5 {
		t.Errorf("error %v, run %+v", err, runs.rows["r"])
	}
}

func TestRunWhoseRowCannotBeWritten(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprintf("applied=%t", applied), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic, runs := &memoryTopic{delay: 5 * time.Second}, newRuns()
				runs.fail = func(int) (bool, error) { return applied, errBroken }
				_, err := newPublisher(t, topic, 10, runs).Run(t.Context(), "r", numbered(3), "", NoCheckpoint{})
				if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "all 3 items are published") {
					t.Fatalf("error %v", err)
				}
				runs.fail = nil
				_, err = newPublisher(t, topic, 10, runs).Run(t.Context(), "r", numbered(3), "", NoCheckpoint{})
				if applied {
					// The reply was lost: the run is published, and says so.
					if err == nil || !strings.Contains(err.Error(), "is PUBLISHED already") {
						t.Errorf("error %v", err)
					}
				} else if err != nil {
					t.Error(err)
				}
				if run := runs.rows["r"]; run.State != StatePublished || run.Published != 3 {
					t.Errorf("run %+v, want 3 published", run)
				}
			})
		})
	}
}

func TestIDSetIsSmall(t *testing.T) {
	ids := newIDSet()
	const n = 1_000_000
	for i := range n {
		ids.add(fmt.Sprint(i))
	}
	held := 0
	for _, part := range ids.parts {
		held += 8 * cap(part)
	}
	if perItem := float64(held) / n; perItem > 16 {
		t.Errorf("%.1f bytes an item, want at most 16", perItem)
	}
	ids.sort()
	for i := range n {
		if !ids.has(fmt.Sprint(i)) {
			t.Fatalf("%d is forgotten", i)
		}
	}
	if ids.has("x") || ids.has(fmt.Sprint(n)) {
		t.Error("an ID is known that was not added")
	}
}
