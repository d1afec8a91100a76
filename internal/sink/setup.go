package sink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spannerschema "github.com/spotbatch/spotbatch/deploy/spanner"
	"github.com/spotbatch/spotbatch/internal/publish"
)

// emulatorConfig is the only instance configuration that emulators have.
const emulatorConfig = "emulator-config"

var createTable = regexp.MustCompile("(?i)^\\s*CREATE\\s+TABLE\\s+(?:IF\\s+NOT\\s+EXISTS\\s+)?`?([A-Za-z0-9_]+)`?")

// Setup creates the tables that are missing in the database and leaves alone
// what is there; report is called for each thing. On an emulator it creates
// instance and database too. On the real cloud those cost money and belong to
// somebody, so they must exist.
func Setup(ctx context.Context, name string, emulator bool, report func(publish.Step), opts ...option.ClientOption) error {
	s := &setup{name: name, emulator: emulator, report: report}
	if emulator {
		if err := s.instance(ctx, opts); err != nil {
			return err
		}
	}
	admin, err := database.NewDatabaseAdminClient(ctx, opts...)
	if err != nil {
		return fmt.Errorf("connect to Spanner: %w", err)
	}
	return errors.Join(s.tables(ctx, admin), admin.Close())
}

type setup struct {
	// name is projects/P/instances/I/databases/D.
	name     string
	emulator bool
	report   func(publish.Step)
}

// parts returns projects/P/instances/I, and D.
func (s *setup) parts() (instancePath, databaseID string) {
	instancePath, databaseID, _ = strings.Cut(s.name, "/databases/")
	return instancePath, databaseID
}

func (s *setup) instance(ctx context.Context, opts []option.ClientOption) (err error) {
	admin, err := instance.NewInstanceAdminClient(ctx, opts...)
	if err != nil {
		return fmt.Errorf("connect to Spanner: %w", err)
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	path, _ := s.parts()
	project, id, _ := strings.Cut(path, "/instances/")
	step := publish.Step{What: "spanner instance " + id}
	// The client would wait for a server that is not there for an hour.
	probe, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err = admin.GetInstance(probe, &instancepb.GetInstanceRequest{Name: path})
	if status.Code(err) == codes.NotFound {
		var op *instance.CreateInstanceOperation
		op, err = admin.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
			Parent: project, InstanceId: id,
			Instance: &instancepb.Instance{
				Config: project + "/instanceConfigs/" + emulatorConfig, DisplayName: id, NodeCount: 1,
			},
		})
		if err == nil {
			_, err = op.Wait(ctx)
		}
		step.Created = err == nil
		if status.Code(err) == codes.AlreadyExists {
			err = nil
		}
	}
	if err != nil {
		return s.explain("set up "+step.What, "spanner.instances.create", err)
	}
	s.report(step)
	return nil
}

// tables creates what is missing of the schema. It looks twice, since another
// set-up may create the same at the same time.
func (s *setup) tables(ctx context.Context, admin *database.DatabaseAdminClient) error {
	_, id := s.parts()
	step := publish.Step{What: "spanner database " + id}
	there, err := s.existing(ctx, admin)
	if status.Code(err) == codes.NotFound && s.emulator {
		if step.Created, err = s.createDatabase(ctx, admin); err == nil {
			there, err = s.existing(ctx, admin)
		}
	}
	if err != nil {
		return s.explain("set up "+step.What, "spanner.databases.getDdl", err)
	}
	s.report(step)
	missing := missingStatements(there)
	if len(missing) > 0 {
		if err := s.update(ctx, admin, missing); err != nil {
			now, readErr := s.existing(ctx, admin)
			if readErr != nil || len(missingStatements(now)) > 0 {
				return s.explain("create tables in "+step.What, "spanner.databases.updateDdl", err)
			}
			there, missing = now, nil
		}
	}
	for _, statement := range spannerschema.Statements() {
		table := createTable.FindStringSubmatch(statement)[1]
		s.report(publish.Step{What: "table " + table, Created: !there[table]})
	}
	return nil
}

// existing returns the tables of the database.
func (s *setup) existing(ctx context.Context, admin *database.DatabaseAdminClient) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	ddl, err := admin.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: s.name})
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool)
	for _, statement := range ddl.GetStatements() {
		if match := createTable.FindStringSubmatch(statement); match != nil {
			there[match[1]] = true
		}
	}
	return there, nil
}

// missingStatements returns the statements of the tables that are not there.
func missingStatements(there map[string]bool) []string {
	var missing []string
	for _, statement := range spannerschema.Statements() {
		if match := createTable.FindStringSubmatch(statement); match == nil || !there[match[1]] {
			missing = append(missing, statement)
		}
	}
	return missing
}

func (s *setup) createDatabase(ctx context.Context, admin *database.DatabaseAdminClient) (created bool, err error) {
	path, id := s.parts()
	op, err := admin.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: path, CreateStatement: "CREATE DATABASE `" + id + "`",
	})
	if err == nil {
		_, err = op.Wait(ctx)
	}
	if status.Code(err) == codes.AlreadyExists {
		return false, nil
	}
	return err == nil, err
}

func (s *setup) update(ctx context.Context, admin *database.DatabaseAdminClient, statements []string) error {
	op, err := admin.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: s.name, Statements: statements})
	if err != nil {
		return err
	}
	return op.Wait(ctx)
}

// explain wraps err with what to do about it.
func (s *setup) explain(action, permission string, err error) error {
	code := status.Code(err)
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	switch code {
	case codes.NotFound:
		path, id := s.parts()
		_, instanceID, _ := strings.Cut(path, "/instances/")
		return fmt.Errorf("%s: %s does not exist; create it first: gcloud spanner databases create %s --instance=%s: %w",
			action, s.name, id, instanceID, err)
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("%s: the account in use needs the permission %s on %s, which is in roles/spanner.databaseAdmin: %w",
			action, permission, s.name, err)
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("%s: no answer from Spanner; check the network and SPANNER_EMULATOR_HOST: %w", action, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}
