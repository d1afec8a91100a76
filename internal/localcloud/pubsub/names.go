package pubsub

import (
	"regexp"
	"strings"
)

var (
	// resourceID is the service's rule for the last part of a name.
	resourceID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}$`)
	// projectID is wider than the service's rule: local projects are often called
	// "demo" or "test", and emulators take them.
	projectID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9\-_.:]{0,62}$`)
)

// checkName says what is wrong with projects/P/KIND/ID.
func checkName(name, kind string) error {
	if name == "" {
		return invalid("Invalid resource name given (name=): want projects/PROJECT/%s/ID", kind)
	}
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != kind || !projectID.MatchString(parts[1]) {
		return invalid("Invalid resource name given (name=%.300s): want projects/PROJECT/%s/ID", name, kind)
	}
	if !resourceID.MatchString(parts[3]) || strings.HasPrefix(parts[3], "goog") {
		return invalid("Invalid resource name given (name=%.300s): the ID must have 3 to 255 of A-Z a-z 0-9 - _ . ~ + %%, begin with a letter and not with \"goog\"", name)
	}
	return nil
}

// checkProject says what is wrong with projects/P.
func checkProject(name string) error {
	if p, ok := strings.CutPrefix(name, "projects/"); !ok || !projectID.MatchString(p) {
		return invalid("Invalid resource name given (name=%.300s): want projects/PROJECT", name)
	}
	return nil
}

// page cuts one page out of names, which are in order. The token is the last
// name of the page before.
func page(names []string, size int32, token string) (part []string, next string, err error) {
	const maxPage = 1000
	if size < 0 {
		return nil, "", invalid("page_size is %d: want 0 or more", size)
	}
	if size == 0 || size > maxPage {
		size = maxPage
	}
	for i, name := range names {
		if name > token {
			names = names[i:]
			if len(names) > int(size) {
				return names[:size], names[size-1], nil
			}
			return names, "", nil
		}
	}
	return nil, "", nil
}
