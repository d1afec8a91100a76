package spanner

import (
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Resource types as the service names them in error details; clients look for the session's.
const (
	instanceType = "type.googleapis.com/google.spanner.admin.instance.v1.Instance"
	databaseType = "type.googleapis.com/google.spanner.admin.database.v1.Database"
	sessionType  = "type.googleapis.com/google.spanner.v1.Session"
)

// The service's rules for IDs.
var (
	instanceID = regexp.MustCompile(`^[a-z][-a-z0-9]{0,62}[a-z0-9]$`)
	databaseID = regexp.MustCompile(`^[a-z][-_a-z0-9]{0,28}[a-z0-9]$`)
	projectRef = regexp.MustCompile(`^projects/[^/]+$`)
)

// parentOf cuts "/<collection>/<id>" off a resource name.
func parentOf(name, collection string) (parent string, ok bool) {
	parent, id, ok := strings.Cut(name, "/"+collection+"/")
	return parent, ok && id != "" && !strings.Contains(id, "/")
}

// notFound is the service's error for a resource that does not exist, with the detail that clients act on.
func notFound(what, resourceType, name string) error {
	st := status.Newf(codes.NotFound, "%s not found: %s", what, name)
	if detailed, err := st.WithDetails(&errdetails.ResourceInfo{
		ResourceType: resourceType,
		ResourceName: name,
		Description:  what + " does not exist.",
	}); err == nil {
		st = detailed
	}
	return st.Err()
}

func alreadyExists(what, name string) error {
	return status.Errorf(codes.AlreadyExists, "%s already exists: %s", what, name)
}
