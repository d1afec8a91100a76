package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/api/option"
)

const bucketScheme = "gs://"

// Open opens the state of the job name at location: a directory, which is made
// if it is not there, or gs://bucket/prefix, which must exist. The state has a
// place of its own below location. opts are for tests.
func Open(ctx context.Context, location, name string, log *slog.Logger, opts ...option.ClientOption) (*State, error) {
	if name == "" || strings.ContainsAny(name, "/\\") || strings.Trim(name, ".") == "" {
		return nil, fmt.Errorf("open state: name %q is no name of a file", name)
	}
	if location == "" {
		return nil, errors.New("open state: no place is given; name a directory or gs://bucket/prefix")
	}
	if rest, is := strings.CutPrefix(location, bucketScheme); is && strings.Trim(rest, "/") == "" {
		return nil, fmt.Errorf("open state: %s names no bucket; write gs://bucket/prefix", location)
	}
	s := &State{log: log}
	var err error
	if strings.HasPrefix(location, bucketScheme) {
		s.where = strings.TrimSuffix(location, "/") + "/" + name
		s.store, err = openBucket(ctx, s.where, opts)
	} else {
		s.where = filepath.Join(location, name)
		s.store, err = openDir(s.where)
	}
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", s.where, err)
	}
	return s, nil
}

// suffix ends the name of a snapshot.
const suffix = ".snapshot"

// fileName makes names sort as the numbers do.
func fileName(number uint64) string { return fmt.Sprintf("%012d%s", number, suffix) }

// numberOf returns the number of a snapshot of that name, false if it is none.
func numberOf(name string) (uint64, bool) {
	digits, found := strings.CutSuffix(name, suffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, found && err == nil && fileName(number) == name
}
