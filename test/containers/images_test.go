package containers_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

const (
	// itemsPath is where the publisher's image has the dataset. It is a part of
	// the image, since nothing can be copied into a read-only container.
	itemsPath = "/items.jsonl"
	// nobody is the user of all images, by number: there is no /etc/passwd.
	nobody = "65532:65532"
)

// images are the names of what was built.
type images struct {
	worker, publisher, localcloud string
}

// recipe is one image.
type recipe struct {
	name string
	// packages are built into the image's root, each under its own last name.
	packages []string
	// files are its other files.
	files map[string][]byte
	// lines end its Dockerfile.
	lines []string
}

// buildImages builds all images; they are removed when the test ends.
func buildImages(t *testing.T, engine *testcontainers.DockerProvider) images {
	t.Helper()
	return images{
		worker: build(t, engine, recipe{
			name:     "worker",
			packages: []string{"./cmd/worker", "./test/runner"},
			// Exec form: there is no shell, and the engine's signals reach
			// process 1 alone.
			lines: []string{`ENTRYPOINT ["/worker"]`, `CMD ["run"]`},
		}),
		publisher: build(t, engine, recipe{
			name:     "publisher",
			packages: []string{"./cmd/publisher"},
			files:    map[string][]byte{filepath.Base(itemsPath): dataset()},
			lines:    []string{`ENTRYPOINT ["/publisher"]`},
		}),
		localcloud: build(t, engine, recipe{
			name:     "localcloud",
			packages: []string{"./cmd/localcloud"},
			lines: []string{
				`ENTRYPOINT ["/localcloud"]`,
				`CMD ["--pubsub", "0.0.0.0:8085", "--spanner", "0.0.0.0:9010", "--gcs", ""]`,
			},
		}),
	}
}

// build makes the build context of one image in a folder of its own, so that
// only that is sent to the engine, and has it built.
func build(t *testing.T, engine *testcontainers.DockerProvider, r recipe) string {
	t.Helper()
	dir := t.TempDir()
	// All of this module; static, and without what only a debugger reads.
	args := append([]string{"build", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}, r.packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the programs of image %s: %v\n%s", r.name, err, out)
	}
	lines := []string{"FROM scratch"}
	for _, pkg := range r.packages {
		lines = append(lines, "COPY "+filepath.Base(pkg)+" /")
	}
	for name, content := range r.files {
		write(t, filepath.Join(dir, name), content)
		lines = append(lines, "COPY "+name+" /")
	}
	lines = append(lines, "USER "+nobody)
	lines = append(lines, r.lines...)
	write(t, filepath.Join(dir, "Dockerfile"), []byte(strings.Join(lines, "\n")+"\n"))

	var log bytes.Buffer
	name, err := engine.BuildImage(t.Context(), &testcontainers.ContainerRequest{
		FromDockerfile: testcontainers.FromDockerfile{Context: dir, Repo: "spotbatch-test-" + r.name, BuildLogWriter: &log},
	})
	if err != nil {
		t.Fatalf("build image %s: %v\n%s", r.name, err, log.Bytes())
	}
	t.Cleanup(func() {
		_, err := engine.Client().ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		if err != nil {
			t.Errorf("remove image %s: %v", name, err)
		}
	})
	return name
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
