// Package gcs serves Cloud Storage's JSON and XML APIs over plain HTTP from memory. The objects are
// fake-gcs-server's; this package closes the doors of it that a shared local service must not have, and makes
// it answer under any host name.
package gcs

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// publicHost is the host under which fake-gcs-server takes "/bucket/object". Requests are rewritten to it, since
// a client in a container reaches this service under a name that nobody can know beforehand.
const publicHost = "storage.googleapis.com"

// Server is a local Cloud Storage without buckets. Make one with New, and close it. It is safe for concurrent use.
type Server struct {
	fake *fakestorage.Server
}

// New returns an empty Server.
func New() (*Server, error) {
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, Scheme: "http", PublicHost: publicHost})
	if err != nil {
		return nil, fmt.Errorf("start Cloud Storage: %w", err)
	}
	return &Server{fake: fake}, nil
}

// Close releases what the server holds. Its handler must not be used any more.
func (s *Server) Close() { s.fake.Stop() }

// apiRoots are the first path elements of the JSON API; any other is a bucket of the XML API.
var apiRoots = map[string]bool{"storage": true, "upload": true, "download": true, "batch": true, "_internal": true}

// Handler returns the HTTP handler of the API.
func (s *Server) Handler() http.Handler {
	inner := s.fake.HTTPHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case root == "_internal" && rest != "healthcheck":
			http.NotFound(w, r) // would let any client delete everything
			return
		case strings.Contains(rest, "/notificationConfigs"):
			http.Error(w, "localcloud: bucket notifications are not supported", http.StatusNotImplemented)
			return
		case root == "storage" && r.Method != http.MethodGet && s.preconditionFails(r):
			http.Error(w, `{"error":{"code":412,"message":"At least one of the pre-conditions you specified did not hold."}}`, http.StatusPreconditionFailed)
			return
		case !apiRoots[root]:
			r.Host = publicHost
		}
		inner.ServeHTTP(w, r)
	})
}

// preconditionFails checks ifGenerationMatch for changes of an object that is there: fake-gcs-server heeds it
// for uploads only. Another change may come between this check and the change itself; an upload has no such gap.
func (s *Server) preconditionFails(r *http.Request) bool {
	wanted := r.URL.Query().Get("ifGenerationMatch")
	bucket, object, ok := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/storage/v1/b/"), "/o/")
	if wanted == "" || !ok {
		return false
	}
	bucket, bucketErr := url.PathUnescape(bucket)
	object, objectErr := url.PathUnescape(object)
	if bucketErr != nil || objectErr != nil {
		return false
	}
	found, err := s.fake.GetObjectStreaming(bucket, object)
	if err != nil {
		return false // not found: the answer is the service's 404
	}
	defer found.Close() //nolint:errcheck // memory
	return wanted != strconv.FormatInt(found.Generation, 10)
}
