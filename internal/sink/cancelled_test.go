package sink

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCancelledGrowsOldAndSurvivesErrors(t *testing.T) {
	errAway := errors.New("away")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reads := 0
	answer, answerErr := map[string]bool{"a": true}, error(nil)
	c := &Cancellations{
		now: func() time.Time { return now },
		read: func(context.Context) (map[string]bool, error) {
			reads++
			return answer, answerErr
		},
	}
	steps := []struct {
		name   string
		after  time.Duration
		answer map[string]bool
		err    error
		want   map[string]bool
		reads  int
	}{
		{"first", 0, map[string]bool{"a": true}, nil, map[string]bool{"a": true}, 1},
		{"young", cancelledAge - 1, map[string]bool{"b": true}, nil, map[string]bool{"a": true}, 1},
		{"old", 1, map[string]bool{"b": true}, nil, map[string]bool{"b": true}, 2},
		{"old, and no answer", cancelledAge, nil, errAway, map[string]bool{"b": true}, 3},
		{"soon after no answer", 1, map[string]bool{"c": true}, nil, map[string]bool{"b": true}, 3},
		{"answered again", cancelledAge, map[string]bool{"c": true}, nil, map[string]bool{"c": true}, 4},
	}
	for _, step := range steps {
		now = now.Add(step.after)
		answer, answerErr = step.answer, step.err
		got, err := c.Cancelled(t.Context())
		if !errors.Is(err, step.err) || reads != step.reads {
			t.Errorf("%s: error %v and %d reads, want %v and %d", step.name, err, reads, step.err, step.reads)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
