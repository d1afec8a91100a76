package main

import (
	"io"
	"strings"
	"testing"
)

func TestEveryCommandHasAnExample(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	for _, cmd := range a.root().Commands() {
		if !strings.Contains(cmd.Example, "publisher "+cmd.Name()) {
			t.Errorf("%s: example %q does not show it", cmd.Name(), cmd.Example)
		}
		if cmd.Short == "" {
			t.Errorf("%s: nothing says what it does", cmd.Name())
		}
	}
}
