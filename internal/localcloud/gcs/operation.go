package gcs

import (
	"net/http"
	"strings"
)

// Operations are the names that Operation gives, as the JSON API's reference spells them.
func Operations() []string {
	return []string{
		"batch", "buckets.delete", "buckets.get", "buckets.insert", "buckets.list", "buckets.patch", "buckets.update",
		"objects.compose", "objects.copy", "objects.delete", "objects.get", "objects.insert", "objects.list",
		"objects.patch", "objects.rewrite", "objects.update", "other",
	}
}

// Operation names what a request asks for, whichever of the APIs it comes by; "other" if it is none of the
// Operations. Reading an object's bytes and its metadata are both objects.get, and each request of a resumable
// upload is objects.insert.
func Operation(r *http.Request) string {
	// Escaped, since an object's name may hold slashes.
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	switch {
	case parts[0] == "batch":
		return "batch"
	case parts[0] == "upload":
		return "objects.insert"
	case parts[0] == "download":
		return "objects.get"
	case parts[0] == "storage" && len(parts) >= 3 && parts[2] == "b":
		return jsonOperation(r.Method, parts[3:])
	case apiRoots[parts[0]]:
		return "other"
	}
	return xmlOperation(r.Method, len(parts) > 1)
}

// jsonOperation takes the path behind /storage/v1/b.
func jsonOperation(method string, path []string) string {
	switch {
	case len(path) == 0:
		return collection("buckets", method)
	case len(path) == 1:
		return single("buckets", method)
	case path[1] != "o":
		return "other"
	case len(path) == 2:
		return collection("objects", method)
	case len(path) == 3:
		return single("objects", method)
	}
	switch path[3] {
	case "rewriteTo":
		return "objects.rewrite"
	case "copyTo":
		return "objects.copy"
	case "compose":
		return "objects.compose"
	}
	return "other"
}

func xmlOperation(method string, object bool) string {
	switch {
	case object && method == http.MethodPut:
		return "objects.insert"
	case object:
		return single("objects", method)
	case method == http.MethodGet:
		return "objects.list"
	case method == http.MethodPut:
		return "buckets.insert"
	}
	return single("buckets", method)
}

func collection(kind, method string) string {
	switch method {
	case http.MethodGet:
		return kind + ".list"
	case http.MethodPost:
		return kind + ".insert"
	}
	return "other"
}

func single(kind, method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return kind + ".get"
	case http.MethodPatch:
		return kind + ".patch"
	case http.MethodPut:
		return kind + ".update"
	case http.MethodDelete:
		return kind + ".delete"
	}
	return "other"
}
