package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modulePath is the module whose tests are run.
const modulePath = "cloud.google.com/go/pubsub/v2"

// regionalEndpoint is what some of the tests name to have all messages of an
// ordering key in one region. An explicit endpoint wins over the emulator's
// variable, so the copy names localcloud instead. Nothing else is changed.
const regionalEndpoint = "us-west1-pubsub.googleapis.com:443"

// copyModule copies the module into dir as a main module, which go test can run
// the tests of.
func copyModule(ctx context.Context, dir, addr string) error {
	source, err := goList(ctx, "{{.Dir}}", modulePath)
	if err != nil {
		return err
	}
	gomod, err := goList(ctx, "{{.GoMod}}")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return fmt.Errorf("copy %s: %w", modulePath, err)
	}
	if err := pinVersions(dir, gomod); err != nil {
		return err
	}
	return redirect(dir, addr)
}

func goList(ctx context.Context, format string, modules ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-m", "-f", format}, modules...)...)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("go list -m %s: %w: %s", strings.Join(modules, " "), err, stderr)
	}
	text := strings.TrimSpace(string(out))
	if text == "" {
		return "", fmt.Errorf("go list -m %s prints nothing: run `go mod download`", strings.Join(modules, " "))
	}
	return text, nil
}

// pinVersions gives the module this repository's go.mod, under its own name and
// without the requirement of itself. Its own would have other versions tested
// than those that run here.
func pinVersions(dir, gomod string) error {
	text, err := os.ReadFile(gomod)
	if err != nil {
		return err
	}
	var pinned bytes.Buffer
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "module "):
			line = "module " + modulePath + "\n"
		case len(fields) > 1 && (fields[0] == modulePath || fields[0] == "require" && fields[1] == modulePath):
			continue
		}
		pinned.WriteString(line)
	}
	sums, err := os.ReadFile(strings.TrimSuffix(gomod, ".mod") + ".sum")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), pinned.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
}

// redirect replaces the regional endpoint in the tests.
func redirect(dir, addr string) error {
	replaced := false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(regionalEndpoint)) {
			return err
		}
		replaced = true
		return os.WriteFile(path, bytes.ReplaceAll(text, []byte(regionalEndpoint), []byte(addr)), 0o600)
	})
	if err == nil && !replaced {
		err = errors.New("no test names " + regionalEndpoint + " any more: remove what replaces it")
	}
	return err
}
