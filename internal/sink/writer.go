package sink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// Limits of one commit. Spanner takes 80,000 mutations, counted as columns
// times rows plus the entries of indexes, and 100 MB
// (https://cloud.google.com/spanner/quotas). Half of the first leaves room for
// indexes that operators add; commits much larger than the second only make a
// retry dearer.
const (
	maxCommitMutations = 40_000
	maxCommitBytes     = 32 << 20
)

// How an attempt is repeated while its outcome is unknown. An attempt has a
// deadline of its own, so that a lost reply leaves time for another one.
const (
	attemptTimeout = 8 * time.Second
	firstBackoff   = 50 * time.Millisecond
	maxBackoff     = 2 * time.Second
)

// applyFunc makes rows durable in one commit. It may be called again with the
// same rows, whatever it returned before.
type applyFunc func(ctx context.Context, rows []row) error

// write applies rows in as many commits as the limits ask for and sets the
// error of each row in errs, which is indexed as the caller's results are.
func (apply applyFunc) write(ctx context.Context, rows []row, errs []error) {
	for len(rows) > 0 {
		n := commitSize(rows)
		apply.settle(ctx, rows[:n], errs)
		rows = rows[n:]
	}
}

// commitSize is how many of the first rows go into one commit: at least one.
func commitSize(rows []row) int {
	most := min(len(rows), maxCommitMutations/len(resultColumns))
	bytes := 0
	for n := range most {
		bytes += rows[n].bytes()
		if bytes > maxCommitBytes && n > 0 {
			return n
		}
	}
	return most
}

// settle applies rows and, when they are refused for their content, halves
// them until each bad row is alone.
func (apply applyFunc) settle(ctx context.Context, rows []row, errs []error) {
	err := apply.untilKnown(ctx, rows)
	switch {
	case err == nil:
		return
	case !refused(err):
		err = worker.Fail(worker.ClassStore, fmt.Errorf("commit results: %w", err))
	case len(rows) > 1:
		half := len(rows) / 2
		apply.settle(ctx, rows[:half], errs)
		apply.settle(ctx, rows[half:], errs)
		return
	default:
		err = fmt.Errorf("%w: %w", worker.ErrRejected, err)
	}
	for _, r := range rows {
		errs[r.index] = err
	}
}

// untilKnown applies rows until they are known to be stored, the error is
// final, or ctx is done.
func (apply applyFunc) untilKnown(ctx context.Context, rows []row) error {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := apply.once(ctx, rows)
		if err == nil || !worthRetry(err) || !sleep(ctx, backoff) {
			return err
		}
	}
}

func (apply applyFunc) once(ctx context.Context, rows []row) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return apply(ctx, rows)
}

// refused tells whether the server said no to what was written, as opposed to
// not being able to write now.
func refused(err error) bool {
	switch spanner.ErrCode(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return true
	}
	return false
}

// worthRetry tells whether the same commit may succeed, or may have succeeded
// already. A missing table or permission is left to the caller's pace.
func worthRetry(err error) bool {
	switch spanner.ErrCode(err) {
	case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled,
		codes.Internal, codes.Unknown, codes.ResourceExhausted:
		return true
	}
	return false
}

// sleep waits for d, give or take a half so that workers do not retry in
// step, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
