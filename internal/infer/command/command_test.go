package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// logs is where a runner under test logs to.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newRunner(t *testing.T, cfg config.Model, concurrency int) (*command.Runner, *logs) {
	t.Helper()
	out := new(logs)
	r := command.New(cfg, concurrency, slog.New(slog.NewTextHandler(out, nil)))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the runner:\n%s", out)
		}
	})
	return r, out
}

func loaded(t *testing.T, cfg config.Model, concurrency int) (*command.Runner, *logs) {
	t.Helper()
	r, out := newRunner(t, cfg, concurrency)
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatalf("Load: %v", err)
	}
	return r, out
}

func serving(t *testing.T) *command.Runner {
	t.Helper()
	r, _ := loaded(t, childConfig("serve"), 1)
	return r
}

// batch makes inputs with the IDs 0, 1, ... of JSON payloads.
func batch(t *testing.T, r worker.Runner, payloads ...string) []worker.Input {
	t.Helper()
	var ins []worker.Input
	for i, payload := range payloads {
		in, err := r.Prepare(t.Context(), item.Item{
			Key: item.Key{RunID: "r", ItemID: strconv.Itoa(i)}, ContentType: item.ContentTypeJSON, Data: []byte(payload),
		})
		if err != nil {
			t.Fatalf("Prepare(%s): %v", payload, err)
		}
		ins = append(ins, in)
	}
	return ins
}

// answers writes outputs as text, one for each input.
func answers(outs []worker.Output) []string {
	var texts []string
	for _, out := range outs {
		text := out.ItemID + " " + string(out.Value)
		if out.Err != nil {
			text += out.Err.Error()
		}
		texts = append(texts, text)
	}
	return texts
}

// run runs one batch that must succeed.
func run(t *testing.T, r worker.Runner, payloads ...string) []string {
	t.Helper()
	outs, err := r.Run(t.Context(), batch(t, r, payloads...))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return answers(outs)
}

func wantErr(t *testing.T, err error, class worker.Class, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want class %s and text %q", class, text)
	}
	if got := worker.ClassOf(err, "none"); got != class {
		t.Errorf("class of %q = %s; want %s", err, got, class)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error = %q; want %q in it", err, text)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}

func TestRunKeepsOutputsByteForByte(t *testing.T) {
	payloads := []string{
		`{"n": 9007199254740993, "f":1.50, "e":1E400, "k":1, "k":2}`,
		`[ 1.0 ,"\u00e9 é \ud800 <&>"]`,
		`"007"`, `null`, `-0.0`,
		`{"line":"a\nb"}`,
	}
	var want []string
	for i, payload := range payloads {
		want = append(want, fmt.Sprintf("%d %s", i, payload))
	}
	if diff := cmp.Diff(want, run(t, serving(t), payloads...)); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestPayloadLineBreaksBecomeSpaces(t *testing.T) {
	got := run(t, serving(t), "{\r\n\"a\":\n1}\n")
	if want := []string{"0 {  \"a\": 1}"}; !cmp.Equal(want, got) {
		t.Errorf("outputs = %q; want %q", got, want)
	}
}

func TestOtherPayloadsTravelAsBase64(t *testing.T) {
	r := serving(t)
	in, err := r.Prepare(t.Context(), item.Item{
		Key: item.Key{RunID: "r", ItemID: `odd "id" <é>`}, ContentType: "image/png", Data: []byte{0, 0xff, '\n', 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Run(t.Context(), []worker.Input{in})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`odd "id" <é> {"bytes":4}`}, answers(outs)); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestPrepareRefusesWhatIsNotOneDocument(t *testing.T) {
	r, _ := newRunner(t, childConfig("serve"), 1)
	for _, tc := range []struct{ name, data, want string }{
		{"empty", "", "empty"},
		{"blank", " \n", "empty"},
		{"two documents", "{} {}", "at byte 4"},
		{"NaN", `{"a":NaN}`, "invalid character 'N'"},
		{"not UTF-8", "\"\xff\"", "not valid UTF-8"},
		{"byte order mark", "\ufeff{}", "invalid character"},
		{"cut", `{"a":`, "unexpected end"},
		{"closes the envelope", `1}]} {`, "at byte 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.Prepare(t.Context(), item.Item{ContentType: "application/json; charset=utf-8", Data: []byte(tc.data)})
			wantErr(t, err, worker.ClassInvalidInput, tc.want)
		})
	}
}

func TestItemErrorsCostOnlyTheItem(t *testing.T) {
	got := run(t, serving(t),
		`{"do":"error","value":{"class":"item_error","message":"not an image"}}`,
		`{"do":"error","value":{"class":"invalid_output","message":"overflow"}}`,
		`{"do":"error","value":{"class":"store","message":"who knows"}}`,
		`{"do":"error","value":{}}`,
		`{"do":"output","text":"{\"p\":[1, NaN]}"}`,
		`{"do":"output","text":"-Infinity"}`,
		`{"do":"output","text":"\"NaN is text\""}`,
	)
	want := []string{
		"0 item_error: not an image",
		"1 invalid_output: overflow",
		"2 item_error: store: who knows",
		"3 item_error: the runner gave no message",
		"4 invalid_output: output has NaN or Infinity, which JSON cannot hold",
		"5 invalid_output: output has NaN or Infinity, which JSON cannot hold",
		`6 "NaN is text"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestBatchErrorsLeaveTheChildRunning(t *testing.T) {
	r := serving(t)
	pid := run(t, r, `{"do":"pid"}`)
	for _, tc := range []struct {
		name, reply string
		class       worker.Class
		text        string
	}{
		{"out of memory", `{"batch":"BATCH","error":{"class":"out_of_memory","message":"12 GiB\tasked"}}`, worker.ClassOutOfMemory, "12 GiB asked"},
		{"transient", `{"batch":"BATCH","error":{"class":"transient","message":"429"}}`, worker.ClassTransient, "429"},
		{"device", `{"batch":"BATCH","error":{"class":"device","message":"cuda 700"}}`, worker.ClassDevice, "cuda 700"},
		{"batch error", `{"batch":"BATCH","error":{"class":"batch_error","message":"no"}}`, worker.ClassBatchError, "no"},
		{"unknown class", `{"batch":"BATCH","error":{"class":"teapot","message":"no"}}`, worker.ClassBatchError, "teapot: no"},
		{"neither", `{"batch":"BATCH"}`, worker.ClassProtocolError, "neither results nor an error"},
		{"no item_id", `{"batch":"BATCH","results":[{"output":1}]}`, worker.ClassProtocolError, "result 0 has no item_id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.Run(t.Context(), batch(t, r, fmt.Sprintf(`{"do":"raw","text":%q}`, tc.reply)))
			wantErr(t, err, tc.class, tc.text)
			if diff := cmp.Diff(pid, run(t, r, `{"do":"pid"}`)); diff != "" {
				t.Errorf("process ID changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestBrokenStreamsRestartTheChild(t *testing.T) {
	for _, tc := range []struct {
		name, payload string
		class         worker.Class
		text          string
	}{
		{"stray print", `{"do":"print","text":"loading \u001b[1m weights"}`, worker.ClassProtocolError, `loading \x1b[1m weights`},
		{"other batch", `{"do":"raw","text":"{\"batch\":\"b999\",\"results\":[]}"}`, worker.ClassProtocolError, "b999"},
		{"no batch", `{"do":"raw","text":"{\"results\":[]}"}`, worker.ClassProtocolError, "names no batch"},
		{"exit", `{"do":"crash","text":"ValueError: boom"}`, worker.ClassRunnerCrash, "exit status 3: ValueError: boom"},
		{"killed", `{"do":"sigkill"}`, worker.ClassRunnerCrash, "signal: killed"},
		{"closed output", `{"do":"close"}`, worker.ClassRunnerCrash, "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serving(t)
			pid := run(t, r, `{"do":"pid"}`)
			_, err := r.Run(t.Context(), batch(t, r, tc.payload))
			wantErr(t, err, tc.class, tc.text)
			if cmp.Equal(pid, run(t, r, `{"do":"pid"}`)) {
				t.Error("the next batch went to the same process")
			}
			if got := r.Restarts(); got != 1 {
				t.Errorf("Restarts() = %d; want 1", got)
			}
		})
	}
}

func TestLinesAfterTheAnswerDoNotReachTheNextBatch(t *testing.T) {
	r := serving(t)
	got := run(t, r, `{"do":"raw","text":"{\"batch\":\"BATCH\",\"results\":[{\"item_id\":\"0\",\"output\":1}]}\n\ndone!"}`)
	if want := []string{"0 1"}; !cmp.Equal(want, got) {
		t.Errorf("outputs = %q; want %q", got, want)
	}
	if got, want := run(t, r, `2`), []string{"0 2"}; !cmp.Equal(want, got) {
		t.Errorf("next outputs = %q; want %q", got, want)
	}
}

func TestAnswerBeforeTheEndCounts(t *testing.T) {
	r := serving(t)
	for n := range int64(5) {
		if got := run(t, r, `{"do":"bye"}`); !cmp.Equal(got, []string{`0 {"do":"bye"}`}) {
			t.Fatalf("outputs = %q", got)
		}
		// Else the next batch may meet the dying child.
		eventually(t, "a restart", func() bool { return r.Restarts() > n })
	}
}

func TestLargeAnswer(t *testing.T) {
	const size = 20 << 20
	got := run(t, serving(t), fmt.Sprintf(`{"do":"big","text":"%d"}`, size))
	if len(got[0]) != size+len(`0 ""`) {
		t.Errorf("output has %d bytes; want %d", len(got[0]), size+4)
	}
}

func TestRunTimeoutKillsTheChild(t *testing.T) {
	r := serving(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := r.Run(ctx, batch(t, r, `{"do":"hang"}`, `1`))
	wantErr(t, err, worker.ClassTransient, "run batch of 2 items: no answer in 2")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v; want context.DeadlineExceeded in its chain", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("Run returned after %s; want at once after 200ms", d)
	}
	if got := run(t, r, `2`); !cmp.Equal(got, []string{"0 2"}) {
		t.Errorf("next outputs = %q", got)
	}
}

func TestRunWaitsForARestartWithinItsContext(t *testing.T) {
	r, _ := loaded(t, childConfig("once", filepath.Join(t.TempDir(), "flag")), 1)
	_, err := r.Run(t.Context(), batch(t, r, `{"do":"crash","text":"bang"}`))
	wantErr(t, err, worker.ClassRunnerCrash, "bang")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = r.Run(ctx, batch(t, r, `1`))
	wantErr(t, err, worker.ClassTransient, "exit status 9: cannot start twice")
}

func TestOtherModelAfterRestartIsRefused(t *testing.T) {
	r, _ := loaded(t, childConfig("versions", filepath.Join(t.TempDir(), "count")), 1)
	_, err := r.Run(t.Context(), batch(t, r, `{"do":"crash","text":"bang"}`))
	wantErr(t, err, worker.ClassRunnerCrash, "bang")
	_, err = r.Run(t.Context(), batch(t, r, `1`))
	wantErr(t, err, worker.ClassDevice, `model version is "v2" after a restart`)
}

func TestConcurrentRunsUseOneChildEach(t *testing.T) {
	r, _ := loaded(t, childConfig("serve"), 3)
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[string]bool{}
	for range 3 {
		wg.Go(func() {
			got, err := r.Run(t.Context(), batch(t, r, `{"do":"sleep","text":"300ms"}`, `{"do":"pid"}`))
			if err != nil {
				t.Errorf("Run: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pids[string(got[1].Value)] = true
		})
	}
	wg.Wait()
	if len(pids) != 3 {
		t.Errorf("processes = %v; want 3", pids)
	}
}

func TestStderrGoesToTheLogBounded(t *testing.T) {
	r, out := newRunner(t, childConfig("die", "4", strings.Repeat("y", 10_000)), 1)
	if _, err := r.Load(t.Context()); err == nil {
		t.Fatal("Load succeeded")
	}
	text := out.String()
	if !strings.Contains(text, `line="a line before"`) || !strings.Contains(text, "runner_pid=") {
		t.Errorf("log = %.300q; want the child's line in it", text)
	}
	if len(text) > 8192 {
		t.Errorf("log has %d bytes", len(text))
	}
}

// gone waits until the process is no more, or only waits to be reaped.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// pidFrom waits for a file with a process ID.
func pidFrom(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a process ID in "+path, func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(string(text))
		}
		return err == nil
	})
	return pid
}

// eventually waits until done says so.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited too long for %s", what)
		}
	}
}
