package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/spanner"
	apiv1 "cloud.google.com/go/spanner/apiv1"
	gax "github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// The tables of deploy/spanner/schema.sql.
const (
	tableRuns     = "Runs"
	tableResults  = "Results"
	tableAttempts = "Attempts"
)

// pingTimeout bounds Ping, since the client itself would wait for a server
// that does not answer as long as its context allows.
const pingTimeout = 15 * time.Second

// sessionTimeout is how long the client waits for its session to be made, before
// the next call makes another. All calls wait for the one session, so that one
// that hangs holds up all of them; the library's own limit is 30s.
const sessionTimeout = 10 * time.Second

// Database is an open connection to one Spanner database. It is safe for
// concurrent use and must be closed.
type Database struct {
	name   string
	client *spanner.Client
}

// Open connects to the database projects/P/instances/I/databases/D. It does
// not wait for the server: Ping does. SPANNER_EMULATOR_HOST is respected and
// needs no credentials; opts are for tests, which give an endpoint instead.
func Open(ctx context.Context, name string, log *slog.Logger, opts ...option.ClientOption) (*Database, error) {
	client, err := spanner.NewClientWithConfig(ctx, name, spanner.ClientConfig{
		// The client would send metrics of its own to Cloud Monitoring, on a
		// schedule and with credentials that the product does not ask for.
		DisableNativeMetrics: true,
		CallOptions:          &apiv1.CallOptions{CreateSession: []gax.CallOption{gax.WithTimeout(sessionTimeout)}},
		Logger:               slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("open spanner database %s: %w", name, err)
	}
	return &Database{name: name, client: client}, nil
}

// Close ends the connection. Calls that are under way fail.
func (d *Database) Close() { d.client.Close() }

// Ping reads one key of each table, and returns an error that says what to do
// when the server, the database or a table is not there. It waits at most 15s.
func (d *Database) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	for _, probe := range []struct {
		table string
		key   spanner.Key
	}{
		{tableRuns, spanner.Key{""}},
		{tableResults, spanner.Key{"", 0, ""}},
		{tableAttempts, spanner.Key{"", 0, ""}},
	} {
		_, err := d.client.Single().ReadRow(ctx, probe.table, probe.key, []string{"RunId"})
		if err != nil && !errors.Is(err, spanner.ErrRowNotFound) {
			return d.explain("read table "+probe.table, err)
		}
	}
	return nil
}

// explain wraps err with the action that failed and, where the cause is
// known, with what to do about it. What comes again at every try is
// worker.ErrPermanent; a permission may be on its way, and so may credentials.
func (d *Database) explain(action string, err error) error {
	switch spanner.ErrCode(err) {
	case codes.NotFound:
		return worker.Permanent(fmt.Errorf("%s: database %s or its table does not exist; run `publisher setup` (%w)", action, d.name, err))
	case codes.InvalidArgument, codes.Unimplemented:
		return worker.Permanent(fmt.Errorf("%s: database %s: %w", action, d.name, err))
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("%s: no access to database %s; grant roles/spanner.databaseUser to the account in use (%w)", action, d.name, err)
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("%s: no answer from Spanner for database %s; check the network and SPANNER_EMULATOR_HOST (%w)", action, d.name, err)
	}
	return fmt.Errorf("%s: database %s: %w", action, d.name, err)
}
