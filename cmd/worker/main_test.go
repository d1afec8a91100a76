package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spotbatch/spotbatch/internal/signals"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"worker": func() {
			stop, release := signals.Notify(context.Background())
			defer release()
			os.Exit(run(stop, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) //nolint:forbidigo // this is the program's main
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
