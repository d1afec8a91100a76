package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// saveInterval is the least time between two saves.
	saveInterval = time.Second
	// keep is the number of snapshots that a sweep leaves: the newest, and one
	// to fall back on.
	keep = 2
)

// What stands in the way of using a state.
var (
	// ErrLocked says that another process on this machine has the state open.
	ErrLocked = errors.New("another process is at it")
	// ErrOvertaken says that another process has saved to the state since it
	// was loaded. Nothing more can be saved.
	ErrOvertaken = errors.New("another process has gone on with it")
)

// errExists says that a snapshot of that number is there already.
var errExists = errors.New("exists")

// store keeps immutable objects by number.
type store interface {
	// list returns the numbers that are taken, in any order.
	list(ctx context.Context) ([]uint64, error)
	// read returns an object, or errAbsent.
	read(ctx context.Context, number uint64) ([]byte, error)
	// create writes an object durably, and never over another: it returns
	// errExists instead. After any other error the object may be there, whole
	// or torn.
	create(ctx context.Context, number uint64, data []byte) error
	// remove removes an object; one that is not there is no error.
	remove(ctx context.Context, number uint64) error
	// close releases what the store holds.
	close() error
}

// errAbsent says that there is no object of that number.
var errAbsent = errors.New("absent")

// State is the snapshots of one job. It is not safe for concurrent use, and
// must be closed.
type State struct {
	store store
	// where names the state for people.
	where string
	log   *slog.Logger
	// next is the number of the next snapshot; 0 until the state is loaded.
	next     uint64
	lastSave time.Time
	// overtaken is what every further Save returns.
	overtaken error
}

// Where is the directory or the address of the state.
func (s *State) Where() string { return s.where }

// Load reads the newest valid snapshot into value, which json.Unmarshal must
// take, and says whether there is one. It must be called before Save.
func (s *State) Load(ctx context.Context, value any) (found bool, err error) {
	taken, err := s.store.list(ctx)
	if err != nil {
		return false, fmt.Errorf("read state %s: %w", s.where, err)
	}
	slices.Sort(taken)
	s.next = 1
	if len(taken) > 0 {
		s.next = taken[len(taken)-1] + 1
	}
	for _, number := range slices.Backward(taken) {
		data, err := s.store.read(ctx, number)
		if errors.Is(err, errAbsent) { // swept by another process
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read snapshot %d of state %s: %w", number, s.where, err)
		}
		body, err := unseal(data)
		if errors.Is(err, errTorn) {
			s.log.Warn("a snapshot was passed over: it was not written to its end", "state", s.where, "snapshot", number, "error", err)
			continue
		}
		if err == nil {
			err = json.Unmarshal(body, value)
		}
		if err != nil {
			return false, fmt.Errorf("read snapshot %d of state %s: %w; another version has written it: go on with that one, or remove the state to begin anew", number, s.where, err)
		}
		return true, nil
	}
	return false, nil
}

// Save writes a snapshot and sweeps old ones. It waits until a second has
// passed since the one before. A save that failed may have been kept all the
// same; the next one wins over it. After ErrOvertaken every save fails.
func (s *State) Save(ctx context.Context, value any) error {
	if s.overtaken != nil {
		return s.overtaken
	}
	if s.next == 0 {
		return errors.New("save state: it was not loaded")
	}
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	if err := s.wait(ctx); err != nil {
		return fmt.Errorf("save state %s: %w", s.where, err)
	}
	s.lastSave = time.Now()
	// Whatever comes of it, the number is used up.
	number, data := s.next, seal(body)
	s.next++
	err = s.store.create(ctx, number, data)
	if errors.Is(err, errExists) {
		err = s.resolve(ctx, number, data)
	}
	if err != nil {
		return fmt.Errorf("save state %s: %w", s.where, err)
	}
	return s.sweep(ctx, number)
}

// wait lets saveInterval pass since the last save.
func (s *State) wait(ctx context.Context) error {
	timer := time.NewTimer(time.Until(s.lastSave.Add(saveInterval)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// resolve decides what it means that a number is taken: a try of this call was
// kept although it seemed to fail, and made again, or another process was here.
func (s *State) resolve(ctx context.Context, number uint64, data []byte) error {
	there, err := s.store.read(ctx, number)
	if err != nil && !errors.Is(err, errAbsent) {
		return err
	}
	if !bytes.Equal(there, data) {
		s.overtaken = fmt.Errorf("state %s: %w", s.where, ErrOvertaken)
		return s.overtaken
	}
	return nil
}

// sweep removes all but the newest snapshots, and notices a newer one than
// number: its writer has swept the numbers in between, so that they could be
// created once more.
func (s *State) sweep(ctx context.Context, number uint64) error {
	taken, err := s.store.list(ctx)
	if err != nil {
		s.log.Warn("old snapshots not swept", "state", s.where, "error", err)
		return nil
	}
	slices.Sort(taken)
	if len(taken) > 0 && taken[len(taken)-1] > number {
		s.overtaken = fmt.Errorf("state %s: %w", s.where, ErrOvertaken)
		return s.overtaken
	}
	for _, old := range taken[:max(0, len(taken)-keep)] {
		if err := s.store.remove(ctx, old); err != nil {
			s.log.Warn("old snapshot not swept", "state", s.where, "snapshot", old, "error", err)
		}
	}
	return nil
}

// Close lets others use the state.
func (s *State) Close() error {
	if err := s.store.close(); err != nil {
		return fmt.Errorf("close state %s: %w", s.where, err)
	}
	return nil
}
