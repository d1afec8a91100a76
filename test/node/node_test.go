// Package node tests localcloud with official clients that are not Go: Node's. See the files *.test.mjs.
package node

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// clients returns the folder with the Node clients. Where they have not been fetched the test is skipped, unless
// SPOTBATCH_TEST_REQUIRE_NODE=1 asks to fetch them, and to fail where that cannot be done.
func clients(t *testing.T) string {
	t.Helper()
	required := os.Getenv("SPOTBATCH_TEST_REQUIRE_NODE") == "1"
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "node.sh"))
	if !required {
		cmd.Args = append(cmd.Args, "--no-fetch")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	folder, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(folder))
	}
	if required {
		t.Fatalf("no Node clients: %v\n%s", err, stderr.String())
	}
	t.Skipf("no Node clients: %s", strings.TrimSpace(stderr.String()))
	return ""
}

func TestNodeClients(t *testing.T) {
	folder := clients(t)
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "localcloud"), "github.com/spotbatch/spotbatch/cmd/localcloud")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build localcloud: %v\n%s", err, out)
	}
	local, err := cluster.Start(t.Context(), cluster.Options{Bin: bin, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()

	for _, file := range []string{"pubsub.test.mjs", "spanner.test.mjs"} {
		t.Run(file, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "--test", file)
			cmd.Env = append(os.Environ(), local.Env()...)
			cmd.Env = append(cmd.Env,
				"SPOTBATCH_TEST_NODE_CLIENTS="+folder,
				// The clients look for nothing but localcloud.
				"METADATA_SERVER_DETECTION=none", "SPANNER_DISABLE_BUILTIN_METRICS=true")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("node --test %s: %v\n%s", file, err, out)
			}
			t.Logf("%s", out)
		})
	}
}
