package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	const events = `{"Action":"start","Package":"p"}
{"Action":"run","Test":"A"}
{"Action":"output","Test":"A","Output":"hello\n"}
{"Action":"pass","Test":"A","Elapsed":1.5}
{"Action":"run","Test":"B"}
{"Action":"fail","Test":"B","Elapsed":0.5}
{"Action":"run","Test":"C"}
{"Action":"skip","Test":"C"}
{"Action":"run","Test":"D"}
{"Action":"fail","Package":"p"}
`
	for _, tt := range []struct {
		name, events, known string
		want                []string // what the error says; none is no error
	}{
		{"all are accounted for", events, "B: no IAM\nC: no project\nD: hangs", nil},
		{"unlisted", events, "", []string{"B: fail", "C: skip", "D: unfinished"}},
		{"a listed one passes", events, "A: why\nB: why\nC: why\nD: why", []string{"A passes"}},
		{"a listed one is gone", events, "B: why\nC: why\nD: why\nE: why", []string{"E did not run"}},
		{"none ran", `{"Action":"fail","Package":"p"}`, "", []string{"no test ran"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results, err := readResults(strings.NewReader(tt.events))
			if err != nil {
				t.Fatal(err)
			}
			known, err := parseKnown(tt.known)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := report(io.Discard, results, known); err != nil {
				got = err.Error()
			}
			if lines := strings.FieldsFunc(got, func(r rune) bool { return r == '\n' }); len(lines) != len(tt.want) {
				t.Errorf("got %q, want %d lines", got, len(tt.want))
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

func TestKnownNeedsReasons(t *testing.T) {
	if _, err := parseKnown(knownFailures); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"TestX", "TestX: ", "TestX reason"} {
		if _, err := parseKnown(text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

func TestPinVersions(t *testing.T) {
	dir, repo := t.TempDir(), filepath.Join(t.TempDir(), "go.mod")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(repo, "module example.org/repo\n\ngo 1.26\n\nrequire (\n\tcloud.google.com/go/pubsub/v2 v2.9.0\n\texample.org/x v1.2.3 // indirect\n)\n")
	write(strings.TrimSuffix(repo, ".mod")+".sum", "sums\n")
	write(filepath.Join(dir, "go.mod"), "module old\n")
	if err := pinVersions(dir, repo); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := "module cloud.google.com/go/pubsub/v2\n\ngo 1.26\n\nrequire (\n\texample.org/x v1.2.3 // indirect\n)\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go.mod (-want +got):\n%s", diff)
	}
}

func TestRedirect(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x_test.go")
	if err := redirect(dir, "127.0.0.1:1"); err == nil {
		t.Error("nothing to redirect: got no error")
	}
	if err := os.WriteFile(path, []byte(`a("us-west1-pubsub.googleapis.com:443")`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := redirect(dir, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != `a("127.0.0.1:1")` {
		t.Errorf("got %s, %v", got, err)
	}
}
