// Package workertest holds strict fakes of what the core needs: a store whose
// writes can fail both kept and lost, and a source that checks that each
// delivery is settled once and by the rules. Both work inside a
// testing/synctest bubble.
package workertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

var _ worker.Store = (*Store)(nil)

// ErrUnavailable is what the fakes answer when they are told to fail.
var ErrUnavailable = errors.New("unavailable")

// Fault is what a call of the store runs into.
type Fault struct {
	// Kept says that the effect takes place although the call fails.
	Kept bool
	// Err is what the caller sees; nil means no fault at all.
	Err error
}

// Store is a worker.Store in memory.
type Store struct {
	T testing.TB
	// OnLookup and OnCommit are asked before each call, with its number from
	// 0, and may wait. Nil means no fault.
	OnLookup func(ctx context.Context, n int) error
	OnCommit func(ctx context.Context, n int, results []worker.Result) Fault
	// Attempts has records that end with results; nil means none.
	Attempts *Attempts
	// Reject says which rows the store refuses for their content.
	Reject func(worker.Result) bool

	mu      sync.Mutex
	rows    map[item.Key]worker.Result
	lookups int
	commits int
}

// Lookup implements worker.Store.
func (s *Store) Lookup(ctx context.Context, keys []item.Key) (map[item.Key]worker.Stored, error) {
	s.mu.Lock()
	n := s.lookups
	s.lookups++
	s.mu.Unlock()
	if s.OnLookup != nil {
		if err := s.OnLookup(ctx, n); err != nil {
			return nil, worker.Fail(worker.ClassStore, err)
		}
	}
	if ctx.Err() != nil {
		return nil, worker.Fail(worker.ClassStore, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[item.Key]worker.Stored)
	for _, k := range keys {
		if r, ok := s.rows[k]; ok {
			found[k] = worker.Stored{Status: r.Status, ModelVersion: r.ModelVersion}
		}
	}
	return found, nil
}

// Commit implements worker.Store.
func (s *Store) Commit(ctx context.Context, results []worker.Result) []error {
	s.T.Helper()
	s.mu.Lock()
	n := s.commits
	s.commits++
	s.mu.Unlock()
	s.check(results)
	var fault Fault
	if s.OnCommit != nil {
		fault = s.OnCommit(ctx, n, results)
	}
	if fault.Err == nil && ctx.Err() != nil {
		fault = Fault{Err: ctx.Err()}
	}
	errs := make([]error, len(results))
	for i, r := range results {
		switch {
		case s.Reject != nil && s.Reject(r):
			errs[i] = fmt.Errorf("row of %s: %w", r.Key, worker.ErrRejected)
			continue
		case fault.Err != nil:
			errs[i] = worker.Fail(worker.ClassStore, fault.Err)
			if !fault.Kept {
				continue
			}
		}
		s.Put(r)
		if r.Attempted && s.Attempts != nil {
			s.Attempts.end(r.Key)
		}
	}
	return errs
}

// check fails the test on results that break the contract of worker.Store.
func (s *Store) check(results []worker.Result) {
	s.T.Helper()
	if len(results) == 0 {
		s.T.Error("store: Commit called without results")
	}
	seen := make(map[item.Key]bool, len(results))
	for _, r := range results {
		if seen[r.Key] {
			s.T.Errorf("store: key %s is twice in one commit", r.Key)
		}
		seen[r.Key] = true
		if r.ModelVersion == "" || r.Worker == "" {
			s.T.Errorf("store: row of %s has no model version or worker", r.Key)
		}
		switch r.Status {
		case worker.StatusOK:
			if len(r.Output) == 0 || r.Class != "" || r.Message != "" {
				s.T.Errorf("store: OK row of %s has output %q, class %q, message %q", r.Key, r.Output, r.Class, r.Message)
			}
		case worker.StatusFailed:
			if r.Output != nil || r.Class == "" || r.Message == "" {
				s.T.Errorf("store: FAILED row of %s has output %q, class %q, message %q", r.Key, r.Output, r.Class, r.Message)
			}
		default:
			s.T.Errorf("store: row of %s has status %q", r.Key, r.Status)
		}
	}
}

// Put upserts a row by the rule of the design: FAILED never replaces OK.
func (s *Store) Put(r worker.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = make(map[item.Key]worker.Result)
	}
	if old, ok := s.rows[r.Key]; ok && old.Status == worker.StatusOK && r.Status == worker.StatusFailed {
		return
	}
	s.rows[r.Key] = r
}

// Rows returns a copy of what is stored.
func (s *Store) Rows() map[item.Key]worker.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows)
}

// Has reports whether the item has a row.
func (s *Store) Has(key item.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.rows[key]
	return ok
}

// Commits returns the number of Commit calls so far.
func (s *Store) Commits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}
