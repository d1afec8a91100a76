package digits

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// pythonRunner starts runner.py as a worker does.
func pythonRunner(t *testing.T) *command.Runner {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	r := command.New(config.Model{Kind: "command", Command: []string{"python3", "runner.py"}}, 1, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	info, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.ModelVersion != "digits-ink-1" {
		t.Errorf("model version is %q", info.ModelVersion)
	}
	return r
}

func input(t *testing.T, r worker.Runner, id, contentType string, data []byte) worker.Input {
	t.Helper()
	in, err := r.Prepare(t.Context(), item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: contentType, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestPythonRunnerLabelsTestImages(t *testing.T) {
	set := testImages(t)
	r := pythonRunner(t)
	const n, size = 1000, 100
	right := 0
	for from := 0; from < n; from += size {
		right += label(t, r, set, from, size)
	}
	// What it says of itself, less some luck.
	if got := float64(right) / n; got < 0.7 {
		t.Errorf("labelled %.1f %% of %d images right, want at least 70 %%", 100*got, n)
	}
}

func TestPythonRunnerFailsBadItemsAlone(t *testing.T) {
	r := pythonRunner(t)
	good := encode(t, bytes.Repeat([]byte{200}, 28*28))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-20] ^= 0xff
	outputs, err := r.Run(t.Context(), []worker.Input{
		input(t, r, "good", "image/png", good),
		input(t, r, "empty", "image/png", nil),
		input(t, r, "cut", "image/png", good[:len(good)-20]),
		input(t, r, "flipped", "image/png", flipped),
		input(t, r, "row", "application/json", []byte(`{"id":7}`)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"empty": "not a PNG", "cut": "cut off", "flipped": "corrupt", "row": "application/json is not an image"}
	if len(outputs) != 1+len(want) {
		t.Errorf("%d outputs, want %d", len(outputs), 1+len(want))
	}
	for _, out := range outputs {
		if message := want[out.ItemID]; message != "" {
			if worker.ClassOf(out.Err, "") != worker.ClassItemError || !strings.Contains(out.Err.Error(), message) {
				t.Errorf("%s: got %s, %v, want an item_error with %q", out.ItemID, out.Value, out.Err, message)
			}
		} else if out.Err != nil || !json.Valid(out.Value) {
			t.Errorf("%s: got %s, %v, want a label", out.ItemID, out.Value, out.Err)
		}
	}
}
