package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The whole program with next to nothing to do: every part gives its lines, and
// the JSON says what the table does. No figure is judged: a test machine is
// busy with other things.
func TestEveryPartGivesItsLines(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "./test/bench", "./cmd/localcloud")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "out", "bench.json")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bench"), "-quick", "-bin", dir, "-json", file, "-profiles", dir)
	table, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	if got.Machine == "" || got.Took == "" || len(got.Delays) == 0 || got.Begun.IsZero() {
		t.Errorf("the report does not say how it was made: %s", text)
	}
	lines := map[string]int{}
	for _, l := range got.Lines {
		lines[l.Part]++
		if l.What == "" || l.Unit == "" || math.IsNaN(l.Value) || l.Value < 0 {
			t.Errorf("incomplete line: %+v", l)
		}
		if goal := l.AtLeast != nil || l.AtMost != nil; goal != (l.Met != nil) {
			t.Errorf("a goal without a verdict, or the reverse: %+v", l)
		}
	}
	want := map[string]int{"busy": 12, "textbook": 3, "overhead": 7, "drain": 4, "goodput": 5, "scale": 4}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines by part (-want +got):\n%s\n%s", diff, table)
	}
	for _, profile := range []string{"bare", "bare-store", "no-store", "worker"} {
		if info, err := os.Stat(filepath.Join(dir, profile+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("profile of %s: %v, %v", profile, info, err)
		}
	}
}

// Two workers, one of which idles for half of the window.
func TestBusyCountsWhatLiesInTheWindow(t *testing.T) {
	one, two := &child{}, &child{}
	const warm = 10
	w := &watch{window: 100, warm: warm, open: map[*child]stretch{}, ran: map[*child]int{}}
	over := false
	tell := func(c *child, k kind, at int64) {
		t.Helper()
		if over {
			t.Fatalf("over before %s at %d", k, at)
		}
		over = w.take(note{event: event{Kind: k, At: at, Items: 8}, from: c}, 2)
	}
	for i := range int64(warm) {
		tell(one, begun, 10*i)
		tell(one, ended, 10*i+5)
		tell(two, begun, 10*i+6)
		tell(two, ended, 10*i+9)
	}
	// The window is 99 to 199. One is busy all the time, two from 80 to 90
	// before the window and for half of it.
	tell(one, begun, 99)
	tell(two, begun, 120)
	tell(two, ended, 170)
	tell(one, ended, 190)
	tell(one, begun, 190)
	tell(two, begun, 250)
	tell(two, ended, 251)
	tell(one, ended, 300)
	if !over {
		t.Fatal("the window is not over")
	}
	busy, _, fill := w.busy(2)
	if want := 75.0; busy != want {
		t.Errorf("busy: got %v %%, want %v", busy, want)
	}
	if want := 8.0; fill != want {
		t.Errorf("fill: got %v, want %v", fill, want)
	}
	if got, want := w.started, int64(8*(2*warm+3)); got != want {
		t.Errorf("items started by the end of the window: got %d, want %d", got, want)
	}
}

func TestPercentileIsANearestRank(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for i := range sorted {
		sorted[i] = time.Duration(i + 1)
	}
	for percent, want := range map[int]time.Duration{50: 50, 99: 99, 100: 100} {
		if got := percentile(sorted, percent); got != want {
			t.Errorf("p%d of 1 to 100: got %d, want %d", percent, got, want)
		}
	}
	if got := percentile(sorted[:1], 50); got != 1 {
		t.Errorf("p50 of one value: got %d, want 1", got)
	}
}

// Every byte arrives, in order, and none before its time.
func TestProxyDelaysEachWay(t *testing.T) {
	const delay = 20 * time.Millisecond
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn) // echoes until the client has gone
	}()
	p, err := startProxy(context.Background(), server.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	client, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 3 {
		sent := fmt.Sprintf("message %d", i)
		begin := time.Now()
		if _, err := io.WriteString(client, sent); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(client, got); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 2*delay {
			t.Errorf("the answer came after %s, want at least %s", took, 2*delay)
		}
		if string(got) != sent {
			t.Errorf("got %q, want %q", got, sent)
		}
	}
}
