package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memory is a store that breaks on demand.
type memory struct {
	objects map[uint64][]byte
	creates []time.Time
	// fault is asked at each call; applied says whether the effect takes place
	// although an error is returned.
	fault func(call string) (applied bool, err error)
}

var errBroken = errors.New("broken")

func newMemory() *memory { return &memory{objects: map[uint64][]byte{}} }

func (m *memory) call(name string, effect func()) error {
	applied, err := true, error(nil)
	if m.fault != nil {
		applied, err = m.fault(name)
	}
	if err == nil || applied {
		effect()
	}
	return err
}

func (m *memory) list(context.Context) (taken []uint64, err error) {
	err = m.call("list", func() { taken = slices.Collect(maps.Keys(m.objects)) })
	return taken, err
}

func (m *memory) read(_ context.Context, number uint64) ([]byte, error) {
	data, found := m.objects[number]
	if !found {
		return nil, errAbsent
	}
	return data, m.call("read", func() {})
}

func (m *memory) create(_ context.Context, number uint64, data []byte) error {
	m.creates = append(m.creates, time.Now())
	if _, found := m.objects[number]; found {
		return errExists
	}
	return m.call("create", func() { m.objects[number] = data })
}

func (m *memory) remove(_ context.Context, number uint64) error {
	return m.call("remove", func() { delete(m.objects, number) })
}

func (*memory) close() error { return nil }

func newState(s store) *State {
	return &State{store: s, where: "here", log: slog.New(slog.DiscardHandler)}
}

// loaded returns what a new process finds.
func loaded(t *testing.T, s store) (value string, found bool) {
	t.Helper()
	found, err := newState(s).Load(t.Context(), &value)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return value, found
}

func save(t *testing.T, s *State, value string) {
	t.Helper()
	if err := s.Save(t.Context(), value); err != nil {
		t.Fatalf("save %q: %v", value, err)
	}
}

func TestNewestSnapshotWinsAndOldOnesAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		if value, found := loaded(t, m); found {
			t.Errorf("found %q in an empty store", value)
		}
		s := newState(m)
		if err := s.Save(t.Context(), "early"); err == nil {
			t.Error("saved before it was loaded")
		}
		var nothing string
		if _, err := s.Load(t.Context(), &nothing); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			save(t, s, fmt.Sprint(i))
			if value, _ := loaded(t, m); value != fmt.Sprint(i) {
				t.Fatalf("%q after saving %d", value, i)
			}
		}
		if got := slices.Sorted(maps.Keys(m.objects)); !slices.Equal(got, []uint64{9, 10}) {
			t.Errorf("snapshots %v are left, want the last two", got)
		}
	})
}

func TestSavesAreASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := newState(m)
		var nothing string
		if _, err := s.Load(t.Context(), &nothing); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			save(t, s, fmt.Sprint(i))
		}
		for i := 1; i < len(m.creates); i++ {
			if apart := m.creates[i].Sub(m.creates[i-1]); apart != time.Second {
				t.Errorf("saves %d and %d are %s apart", i-1, i, apart)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Save(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v of a save that has no time to wait", err)
		}
	})
}

// TestEveryCallFailsOnce breaks each call of a store in turn, its effect kept
// or lost. At each moment a new process finds what was saved last, or what
// failed to be saved after that.
func TestEveryCallFailsOnce(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for failing := range 40 {
			synctest.Test(t, func(t *testing.T) {
				m, calls := newMemory(), 0
				m.fault = func(string) (bool, error) {
					if calls++; calls == failing+1 {
						return applied, errBroken
					}
					return true, nil
				}
				s := newState(m)
				var nothing string
				for { // as a caller that starts again
					if _, err := s.Load(t.Context(), &nothing); err == nil {
						break
					}
				}
				saved := -1
				for i := range 10 {
					err := s.Save(t.Context(), i)
					if err != nil && !errors.Is(err, errBroken) {
						t.Fatalf("failing %d: save %d: %v", failing, i, err)
					}
					least := saved
					if err == nil {
						saved, least = i, i
					}
					value := -1
					fault := m.fault
					m.fault = nil
					if _, err := newState(m).Load(t.Context(), &value); err != nil {
						t.Fatal(err)
					}
					m.fault = fault
					if value < least || value > i {
						t.Errorf("failing %d, applied %t: found %d after saving %d", failing, applied, value, i)
					}
				}
				if saved < 8 {
					t.Errorf("failing %d, applied %t: %d was saved last", failing, applied, saved)
				}
			})
		}
	}
}

func TestTornAndDamagedSnapshotsArePassedOver(t *testing.T) {
	older, newer := seal([]byte(`"older"`)), seal([]byte(`"newer"`))
	damaged := map[string][]byte{"longer": append(bytes.Clone(newer), ' ')}
	for n := range len(newer) {
		damaged[fmt.Sprintf("cut to %d bytes", n)] = newer[:n]
		flipped := bytes.Clone(newer)
		flipped[n] ^= 0x10
		damaged[fmt.Sprintf("byte %d flipped", n)] = flipped
	}
	for name, data := range damaged {
		m := newMemory()
		m.objects[3], m.objects[7] = older, data
		var value string
		s := newState(m)
		found, err := s.Load(t.Context(), &value)
		if err != nil && strings.Contains(err.Error(), "is not known") {
			continue // the version was flipped
		}
		if err != nil || !found || value != "older" {
			t.Errorf("%s: %q, found %t, error %v", name, value, found, err)
		}
		save(t, s, "next")
		if value, _ := loaded(t, m); value != "next" {
			t.Errorf("%s: found %q after the next save", name, value)
		}
	}
}

func TestSnapshotOfAnotherVersionIsRefused(t *testing.T) {
	m := newMemory()
	m.objects[1] = []byte("spotbatch-checkpoint 2 whatever\n")
	var value string
	if _, err := newState(m).Load(t.Context(), &value); err == nil || !strings.Contains(err.Error(), "another version has written it") {
		t.Errorf("error %v", err)
	}
}

func TestTheLaterProcessWins(t *testing.T) {
	for _, ahead := range []int{1, 2, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			first, second := newState(m), newState(m)
			var value string
			if _, err := first.Load(t.Context(), &value); err != nil {
				t.Fatal(err)
			}
			save(t, first, "first")
			if _, err := second.Load(t.Context(), &value); err != nil || value != "first" {
				t.Fatalf("found %q, error %v", value, err)
			}
			for i := range ahead {
				save(t, second, fmt.Sprint(i))
			}
			// However far the second is, and whatever it has swept.
			for range 2 {
				if err := first.Save(t.Context(), "too late"); !errors.Is(err, ErrOvertaken) {
					t.Errorf("%d saves ahead: error %v, want %v", ahead, err, ErrOvertaken)
				}
			}
			save(t, second, "last")
			if value, _ := loaded(t, m); value != "last" {
				t.Errorf("found %q, want the second's", value)
			}
		})
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	place := t.TempDir()
	open := func() (*State, error) { return Open(t.Context(), place, "r", slog.New(slog.DiscardHandler)) }
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if first.Where() != filepath.Join(place, "r") {
		t.Errorf("state at %s", first.Where())
	}
	_, err = open()
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("second: error %v, want %v", err, ErrLocked)
	}
	if _, err := Open(t.Context(), place, "other", slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("another job: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, location, job, want string }{
		{"no place", "", "r", "no place is given"},
		{"no bucket", "gs://", "r", "names no bucket"},
		{"a file", file, "r", "not a directory"},
		{"a name that leads elsewhere", t.TempDir(), "..", "no name of a file"},
		{"a name with a slash", t.TempDir(), "a/b", "no name of a file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(t.Context(), test.location, test.job, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestNumbersSortAsNames(t *testing.T) {
	var names []string
	for _, n := range []uint64{1, 9, 10, 999_999_999_999} {
		name := fileName(n)
		if got, is := numberOf(name); !is || got != n {
			t.Errorf("%s is number %d, %t", name, got, is)
		}
		names = append(names, name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("names %v are not in order", names)
	}
	for _, name := range []string{"lock", "1.snapshot", "00000000000a.snapshot", "000000000001", ".snapshot"} {
		if n, is := numberOf(name); is {
			t.Errorf("%q is number %d", name, n)
		}
	}
	if diff := cmp.Diff([]byte("spotbatch-checkpoint 1 0000000002 "), seal([]byte("{}"))[:34]); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}
