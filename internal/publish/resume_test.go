package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/spotbatch/spotbatch/internal/checkpoint"
	"github.com/spotbatch/spotbatch/internal/dataset"
)

// sentIDs are the IDs of messages from the given one on.
func sentIDs(topic *memoryTopic, from int) []string {
	var ids []string
	for _, it := range topic.sent[from:] {
		ids = append(ids, it.ItemID)
	}
	return ids
}

// TestResumeGoesOnBehindWhatIsConfirmed lets message number n fail, for all n.
func TestResumeGoesOnBehindWhatIsConfirmed(t *testing.T) {
	const n, window = 30, 4
	for failing := range n {
		synctest.Test(t, func(t *testing.T) {
			topic, runs, state := &memoryTopic{delay: time.Second}, newRuns(), &memoryCheckpoint{}
			topic.fail = func(i int) error {
				if i == failing {
					return errBroken
				}
				return nil
			}
			data := numbered(n)
			if _, err := newPublisher(t, topic, window, runs).Run(t.Context(), "r", data, "", state); !errors.Is(err, errBroken) {
				t.Fatalf("error %v", err)
			}
			before := len(topic.sent)
			topic.fail = nil
			summary, err := newPublisher(t, topic, window, runs).Run(t.Context(), "r", data, "", state)
			if err != nil {
				t.Fatal(err)
			}
			// It goes on with the very message that failed.
			if diff := cmp.Diff(data.ids[failing:], sentIDs(topic, before)); diff != "" {
				t.Errorf("failing %d: sent again (-want +got):\n%s", failing, diff)
			}
			want := Summary{
				Total:  dataset.Counts{Read: n, Items: n, Bytes: 2 * n},
				Before: dataset.Counts{Read: int64(failing), Items: int64(failing), Bytes: int64(2 * failing)},
				Took:   summary.Took,
			}
			if diff := cmp.Diff(want, summary); diff != "" {
				t.Errorf("failing %d: summary (-want +got):\n%s", failing, diff)
			}
			if run := runs.rows["r"]; run.State != StatePublished || run.Published != n {
				t.Errorf("run %+v, want %d published", run, n)
			}
			// Once more is harmless.
			again, err := newPublisher(t, topic, window, runs).Run(t.Context(), "r", data, "", state)
			if err != nil || again.Took != 0 || again.Before.Items != n || len(topic.sent) != before+n-failing {
				t.Errorf("failing %d: again: %+v, error %v", failing, again, err)
			}
			if data.checks != 1 {
				t.Errorf("the dataset was checked %d times, want once", data.checks)
			}
		})
	}
}

// TestKilledAnywherePublishesTheRest ends a publish without any last words, as
// a kill does, at every second of its way.
func TestKilledAnywherePublishesTheRest(t *testing.T) {
	const n, window = 200, 10
	data := numbered(n)
	for _, bad := range []int{0, 57, 58, 199} { // entries that are left out move the position, too
		data.ids[bad] = "!" + data.ids[bad]
	}
	for second := 1; second < 40; second++ {
		synctest.Test(t, func(t *testing.T) {
			topic, runs, state := &memoryTopic{delay: 500 * time.Millisecond}, newRuns(), &memoryCheckpoint{}
			var killed atomic.Bool
			state.fail = func(int) (bool, error) {
				if killed.Load() {
					return false, errBroken
				}
				return true, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(second)*time.Second+100*time.Millisecond, func() { killed.Store(true); cancel() })
			_, _ = limited(t, topic, window, runs, 7).Run(ctx, "r", data, "", state)
			confirmed, before := runs.rows["r"].Published, len(topic.sent)
			state.fail = nil
			if _, err := newPublisher(t, topic, window, runs).Run(t.Context(), "r", data, "", state); err != nil {
				t.Fatalf("second %d: %v", second, err)
			}
			again := sentIDs(topic, before)
			if len(again) == 0 {
				return // it had come to its end before
			}
			if run := runs.rows["r"]; run.State != StatePublished || run.Published != n-4 {
				t.Errorf("second %d: run %+v", second, run)
			}
			if last := again[len(again)-1]; last != "198" {
				t.Errorf("second %d: the last is %s", second, last)
			}
			// A second's worth, since that is how often it is saved, and the window.
			if twice := len(again) + int(confirmed) - (n - 4); twice < 0 || twice > 7+window+1 {
				t.Errorf("second %d: %d of %d items were published twice", second, twice, n)
			}
		})
	}
}

// limited is newPublisher with a rate.
func limited(t *testing.T, topic Topic, window int, runs Runs, perSecond float64) *Publisher {
	t.Helper()
	p := newPublisher(t, topic, window, runs)
	p.limit = rate.NewLimiter(rate.Limit(perSecond), 1)
	return p
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		topic := &memoryTopic{}
		if _, err := limited(t, topic, 10, newRuns(), 20).Run(t.Context(), "r", numbered(200), "", NoCheckpoint{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start).Round(time.Second); took != 10*time.Second {
			t.Errorf("200 items at 20 a second took %s", took)
		}
	})
}

func TestSavesAreSeldomAndOnlyOfSomethingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic, state := &memoryTopic{delay: time.Minute}, &memoryCheckpoint{}
		if _, err := newPublisher(t, topic, 10, newRuns()).Run(t.Context(), "r", numbered(25), "", state); err != nil {
			t.Fatal(err)
		}
		// One at the beginning, and one for each of the windows but the last.
		if len(state.saves) > 4 {
			t.Errorf("%d saves in three minutes of which little happened", len(state.saves))
		}
		for i := 1; i < len(state.saves); i++ {
			if apart := state.saves[i].Sub(state.saves[i-1]); apart < saveInterval {
				t.Errorf("saves %d and %d are %s apart", i-1, i, apart)
			}
		}
	})
}

// interrupted publishes half of numbered(20) and returns what is left.
func interrupted(t *testing.T, shape string) (*memoryTopic, *memoryRuns, *memoryCheckpoint) {
	t.Helper()
	topic, runs, state := &memoryTopic{}, newRuns(), &memoryCheckpoint{}
	topic.fail = func(i int) error {
		if i == 10 {
			return errBroken
		}
		return nil
	}
	if _, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(20), shape, state); !errors.Is(err, errBroken) {
		t.Fatalf("error %v", err)
	}
	topic.fail, topic.sent = nil, nil
	return topic, runs, state
}

func TestResumeRefusesWhatHasChanged(t *testing.T) {
	shape := `{"ID":"field","IDField":"id"}`
	tests := []struct {
		name   string
		change func(data *rows, shape *string)
		want   string
	}{
		{"another size", func(d *rows, _ *string) { d.ids = append(d.ids, "x") }, "run r was begun with a dataset that has changed since: numbers had 20 bytes and has 21 now"},
		{"other content", func(d *rows, _ *string) { d.hash = "x" }, "has changed since: numbers has other content than before"},
		{"another option", func(_ *rows, s *string) { *s = `{"ID":"field","IDField":"number"}` }, `the options are others: --id-field was "id" and is "number"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topic, runs, state := interrupted(t, shape)
			data, now := numbered(20), shape
			test.change(data, &now)
			_, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", data, now, state)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "--run") {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if len(topic.sent) > 0 || runs.rows["r"].State != StatePublishing {
				t.Errorf("%d messages, run %+v", len(topic.sent), runs.rows["r"])
			}
			// Nothing is in the way of a good try.
			if _, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(20), shape, state); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStateOfAPurgedRunIsNotUsed(t *testing.T) {
	topic, runs, state := interrupted(t, "")
	delete(runs.rows, "r")
	if _, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(20), "", state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbered(20).ids, sentIDs(topic, 0)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestRunThatIsLostToAnotherStops(t *testing.T) {
	tests := []struct {
		name string
		lose func(*memoryRuns, *memoryCheckpoint)
		want error
	}{
		{"cancelled", func(r *memoryRuns, _ *memoryCheckpoint) { r.set("r", StateCancelled) }, ErrCancelled},
		{"published by another", func(r *memoryRuns, _ *memoryCheckpoint) { r.set("r", StatePublished) }, nil},
		{"purged", func(r *memoryRuns, _ *memoryCheckpoint) { r.set("r", "") }, ErrNoRun},
		{"overtaken", func(_ *memoryRuns, c *memoryCheckpoint) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fail = func(int) (bool, error) { return false, fmt.Errorf("state: %w", checkpoint.ErrOvertaken) }
		}, checkpoint.ErrOvertaken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic, runs, state := &memoryTopic{delay: time.Second}, newRuns(), &memoryCheckpoint{}
				time.AfterFunc(5*time.Second, func() { test.lose(runs, state) })
				start := time.Now()
				_, err := limited(t, topic, 10, runs, 10).Run(t.Context(), "r", numbered(1000), "", state)
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took := time.Since(start); took > 9*time.Second {
					t.Errorf("it took %s to notice", took-5*time.Second)
				}
				if run := runs.rows["r"]; run.State == StatePublishing && !errors.Is(test.want, checkpoint.ErrOvertaken) {
					t.Errorf("run %+v", run)
				}
			})
		})
	}
}

func TestStopTakesLessThanTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic, runs := &memoryTopic{hang: 5}, newRuns()
		cause := errors.New("received terminated")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		start := time.Now()
		_, err := newPublisher(t, topic, 10, slowRuns{runs}).Run(ctx, "r", numbered(1000), "", slowCheckpoint{})
		stopped, is := errors.AsType[*Stopped](err)
		if !is || stopped.Published != 5 || stopped.Total != 1000 || !errors.Is(err, cause) {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(start) - time.Second; took > 9*time.Second {
			t.Errorf("stopped after %s", took)
		}
	})
}

// slowRuns and slowCheckpoint hang once they are begun.
type slowRuns struct{ *memoryRuns }

func (slowRuns) Update(ctx context.Context, _ string, _ State, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

type slowCheckpoint struct{}

func (slowCheckpoint) Load(context.Context, any) (bool, error) { return false, nil }

func (slowCheckpoint) Save(ctx context.Context, value any) error {
	if value.(snapshot).After.Row == 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestStateThatCannotBeWrittenAtTheStartEndsThePublish(t *testing.T) {
	topic, state := &memoryTopic{}, &memoryCheckpoint{fail: func(int) (bool, error) { return false, errBroken }}
	if _, err := newPublisher(t, topic, 4, newRuns()).Run(t.Context(), "r", numbered(5), "", state); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	if len(topic.sent) > 0 {
		t.Errorf("%d messages were sent", len(topic.sent))
	}
}

func TestStateThatCannotBeWrittenLaterDoesNotStopPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic, runs := &memoryTopic{delay: time.Second}, newRuns()
		state := &memoryCheckpoint{fail: func(n int) (bool, error) {
			if n > 1 {
				return false, errBroken
			}
			return true, nil
		}}
		if _, err := newPublisher(t, topic, 4, runs).Run(t.Context(), "r", numbered(50), "", state); err != nil {
			t.Errorf("error %v", err)
		}
		if run := runs.rows["r"]; run.State != StatePublished || run.Published != 50 {
			t.Errorf("run %+v", run)
		}
	})
}

func TestRetry(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r", Dataset: "numbers", State: StatePublished, Published: 1200}
	data := numbered(1200)
	var results memoryResults
	for i, id := range data.ids {
		if i%400 == 7 { // missing
			continue
		}
		status := "OK"
		if i%500 == 3 {
			status = "FAILED"
		}
		results.rows = append(results.rows, Row{ItemID: id, Status: status})
	}
	for of, want := range map[RetryOf][]string{RetryFailed: {"3", "503", "1003"}, RetryMissing: {"7", "407", "807"}} {
		topic := &memoryTopic{}
		n, err := newPublisher(t, topic, 10, runs).Retry(t.Context(), "r", data, results, of)
		if err != nil || n != 3 {
			t.Errorf("%s: %d items, error %v", of, n, err)
		}
		if got := sentIDs(topic, 0); !slices.Equal(got, want) {
			t.Errorf("%s: published %v again, want %v", of, got, want)
		}
		if topic.sent[0].RunID != "r" || string(topic.sent[0].Data) != "{}" {
			t.Errorf("message %+v", topic.sent[0])
		}
	}
	if run := runs.rows["r"]; run.Published != 1200 || len(runs.updates) > 0 {
		t.Errorf("run %+v after %d updates; items count once", run, len(runs.updates))
	}
}

func TestRetryRefuses(t *testing.T) {
	tests := []struct {
		name string
		run  Run
		want string
	}{
		{"no run", Run{}, "no such run"},
		{"a run that is not published", Run{ID: "r", Dataset: "numbers", State: StatePublishing}, "run r is PUBLISHING; only items of a run that is PUBLISHED"},
		{"another dataset", Run{ID: "r", Dataset: "letters", State: StatePublished}, "published from another dataset (letters)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topic, runs := &memoryTopic{}, newRuns()
			if test.run.ID != "" {
				runs.rows["r"] = test.run
			}
			_, err := newPublisher(t, topic, 10, runs).Retry(t.Context(), "r", numbered(3), memoryResults{}, RetryMissing)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if len(topic.sent) > 0 {
				t.Errorf("%d messages", len(topic.sent))
			}
		})
	}
}

func TestRetryThatFailsOrStops(t *testing.T) {
	runs := newRuns()
	runs.rows["r"] = Run{ID: "r", Dataset: "numbers", State: StatePublished, Published: 20}
	topic := &memoryTopic{fail: func(i int) error {
		if i == 5 {
			return errBroken
		}
		return nil
	}}
	if _, err := newPublisher(t, topic, 4, runs).Retry(t.Context(), "r", numbered(20), memoryResults{}, RetryMissing); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	cause := errors.New("received terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := newPublisher(t, &memoryTopic{}, 4, runs).Retry(ctx, "r", numbered(20), memoryResults{}, RetryMissing)
	if stopped, is := errors.AsType[*Stopped](err); !is || !stopped.Again || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}
