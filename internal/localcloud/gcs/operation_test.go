package gcs_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/internal/localcloud/gcs"
)

func TestOperation(t *testing.T) {
	tests := map[string]string{
		"GET /storage/v1/b?project=demo":                        "buckets.list",
		"POST /storage/v1/b?project=demo":                       "buckets.insert",
		"GET /storage/v1/b/data":                                "buckets.get",
		"DELETE /storage/v1/b/data":                             "buckets.delete",
		"GET /storage/v1/b/data/o?prefix=x":                     "objects.list",
		"GET /storage/v1/b/data/o/a%2Fb?alt=media":              "objects.get",
		"DELETE /storage/v1/b/data/o/a%2Fb":                     "objects.delete",
		"PATCH /storage/v1/b/data/o/a":                          "objects.patch",
		"POST /storage/v1/b/data/o/a/rewriteTo/b/data/o/c":      "objects.rewrite",
		"POST /storage/v1/b/data/o/a/copyTo/b/data/o/c":         "objects.copy",
		"POST /storage/v1/b/data/o/a/compose":                   "objects.compose",
		"GET /storage/v1/b/data/acl":                            "other",
		"POST /upload/storage/v1/b/data/o?uploadType=resumable": "objects.insert",
		"PUT /upload/storage/v1/b/data/o?upload_id=1":           "objects.insert",
		"GET /download/storage/v1/b/data/o/a":                   "objects.get",
		"GET /data/folder/object":                               "objects.get",
		"PUT /data/object":                                      "objects.insert",
		"GET /data":                                             "objects.list",
		"POST /batch/storage/v1":                                "batch",
		"GET /storage/v1/projects/demo/serviceAccount":          "other",
		"GET /_internal/healthcheck":                            "other",
	}
	for request, want := range tests {
		method, target, _ := strings.Cut(request, " ")
		got := gcs.Operation(httptest.NewRequest(method, target, nil))
		if got != want {
			t.Errorf("%s = %s, want %s", request, got, want)
		}
		if !slices.Contains(gcs.Operations(), got) {
			t.Errorf("%s is not among the Operations", got)
		}
	}
}
